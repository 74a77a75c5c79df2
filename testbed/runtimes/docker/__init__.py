"""The runtime `docker`: a Docker Engine starts the containers of a run.

The Docker SDK is imported only when a Docker Engine is used.
"""
