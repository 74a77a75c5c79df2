"""What runs inside the containers of a run, whoever started them: an Engine, Compose by hand, a cluster.

Every learner has a container of its own, and each of its lives is one start of it. Control and the fabric have one
each, without any privileges. Nothing in here knows Docker. May import what `runtimes` may.
"""
