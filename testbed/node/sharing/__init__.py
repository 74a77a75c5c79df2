"""Sharings: what part of a model is sent, and how received parts are mixed in; one module each.

Takes vectors, gives messages, and back; touches nothing.
"""
