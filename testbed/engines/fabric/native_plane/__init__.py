"""The data plane in C: `core/` is its code, and `plane` makes it a `DataPlane`.

`compile_core` makes the shared library of `core/`; `library` loads it, or says why it cannot be loaded.
"""
