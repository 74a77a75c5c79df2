"""Manifests: what others need in order to start a run.

Takes a `RunPlan`, gives a `Manifest`: the text of files and what was rewritten in them; touches nothing. One package
for each target. Text comes from `templates/`, and a value enters a template only through a dumper. May import the
leaves, `topologies`, `network`, `targets`, `experiment` and `plan`.
"""
