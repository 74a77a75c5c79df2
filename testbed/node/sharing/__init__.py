"""What of a model is shared, and how what arrives is mixed in: one module a way of sharing.

Takes vectors, gives messages, and back; touches nothing.
"""
