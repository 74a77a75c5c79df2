"""Kollaps 2.0: its XML and its manifests for Swarm and Kubernetes.

`render` is the way in. What Kollaps cannot express is rewritten as something equal that it can (`rewrite`), or refused.
"""
