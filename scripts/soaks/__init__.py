"""Long checks that CI has no time for: one thing tried many times, and every try kept.

A soak is a module here with a `Soak`, listed in `listed.py`. It has cases; a case is tried in a folder of its own, and
says whether that was good and what it measured. Every try is one line of a JSONL file, with the commit, the date and
the load, so a soak that was stopped goes on where it was, for the same commit. Figures worth keeping are copied to
`docs/performance.md`, with their date.
"""
