"""The network that a topology describes, and models of it.

Takes a `Topology`, gives models of it; touches nothing. `graph` expands the file's links to arrays of directed links
between vertices, `paths` collapses those into the end-to-end properties of every pair of nodes (`routing` chooses the
links), and `findings` reports what is doubtful about them.
"""
