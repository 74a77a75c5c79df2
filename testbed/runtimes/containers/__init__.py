"""What runs inside the containers of a run, whatever started them: a Docker Engine, Compose, a cluster.

Every learner has a container, and each of its lives is one start of it. Control and the fabric have one each, without
privileges. Nothing in here knows Docker.
"""
