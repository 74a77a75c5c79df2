"""What starts the nodes of a plan: one package for each runtime."""
