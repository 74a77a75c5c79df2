"""Virtual time: all nodes in one process, on a clock that jumps to whatever happens next."""
