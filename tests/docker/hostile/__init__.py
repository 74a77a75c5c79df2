"""Algorithms that misbehave, as a researcher's files are: put into an image, run by learners in containers."""
