"""Builds the image that learners run in, and asks a Docker Engine what an image holds.

The Docker SDK is imported only when a Docker Engine is used.
"""
