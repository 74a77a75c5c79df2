"""Soaks: long checks, not run in CI, that try one thing many times and keep every try.

A soak is a module here with a `Soak`, listed in `listed.py`. Each try of a case runs in a folder of its own, and tells
whether it succeeded and what it measured. Every try is one line of a JSONL file, with the commit, the date and the
load, so a stopped soak continues where it was, for the same commit. Figures worth keeping are copied to
`docs/performance.md`, with their date.
"""
