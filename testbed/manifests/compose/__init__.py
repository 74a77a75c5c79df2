"""Docker Compose: a run as one file, which `docker compose up` starts without this program on the host.

`render` is the way in. Every learner is a service of its own; control, the fabric and what prepares them are three
more.
"""
