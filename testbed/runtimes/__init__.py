"""What starts the nodes of a plan: one room a runtime."""
