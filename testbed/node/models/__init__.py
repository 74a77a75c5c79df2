"""The built-in models, and the construction of models by name.

Takes a name, options, a data set and a seed, gives a torch module; touches nothing. `testbed/catalogue` lists them. It
does not import torch, and neither does `problems`.
"""
