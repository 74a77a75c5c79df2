"""Kollaps 2.0: its topology XML and its manifests for Swarm and Kubernetes.

`render` is the entry point. What Kollaps cannot express is rewritten as an equivalent that it can (`rewrite`), or
refused.
"""
