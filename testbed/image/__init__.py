"""Builds the image that learners run in, and asks an Engine what an image holds.

Knows the Docker SDK, which is imported only when an Engine is really asked.
"""
