"""The compiled data plane: `core/` in C, and what calls it.

- `core`: the packet model (`model`, `link`, `train`, `ends`, `retime`, `agenda`, `draws`), and the data plane over it
  (`plane`, `ports`, `waiting`, `frames`, `delays`, `capture`). `core.h` is what Python calls.
- `compile_core`: makes the shared library; `library`: loads it, or says why it cannot; `abi`: its declarations.
- `packets`: `NativePackets`, the model by itself; `plane`: `NativePlane`.
"""
