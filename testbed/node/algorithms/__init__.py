"""The algorithms, one file each. A file has the steps of its paper, and nothing about networks or processes."""
