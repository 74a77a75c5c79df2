"""The runtime `docker`: a Docker Engine starts the containers of a run.

Knows the Docker SDK, which is imported only when an Engine is really asked.
"""
