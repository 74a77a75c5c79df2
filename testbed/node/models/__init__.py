"""What can be learned: the models that come with the package, and how a researcher's own is made.

Takes a name, options, a data set and a seed, gives a torch module; touches nothing. Which there are is in
`testbed/catalogue`, which knows no torch, as `problems` does not.
"""
