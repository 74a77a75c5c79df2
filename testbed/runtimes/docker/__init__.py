"""Talking to a Docker Engine, and building the image that learners run in.

The one room that knows the Docker SDK; it is imported when an Engine is really asked, never before. May import what
`runtimes` may.
"""
