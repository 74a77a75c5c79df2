"""Which processes and files belong to a run: records, proofs of ownership, and the removal of what is left.

Every runtime of real processes uses it; it uses none of them.
"""
