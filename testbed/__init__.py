"""A testbed for decentralized learning over wide-area networks. `ARCHITECTURE.md` shows the way through it."""

__version__ = "0.1.0"
