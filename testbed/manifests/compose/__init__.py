"""Docker Compose: a run as one file, which `docker compose up` starts without this program on the host.

`render` is the entry point. Every learner is a service of its own; control, the fabric and the preparation of the run
are three more.
"""
