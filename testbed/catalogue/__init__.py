"""What comes with the package: algorithms, sharings, models and data sets, one table each.

Pure, and light: no torch, no numpy, no pydantic, so that help texts can be made of it. Every other room reads these
tables; no other place lists or compares the names in them. An entry has no defaults: one that leaves a fact out is an
error when the table is imported, not a wrong estimate later.
"""
