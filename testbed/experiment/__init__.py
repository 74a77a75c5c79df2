"""Experiments: reads a file, or options of the command line, into one validated `Experiment`.

- `language`: every key, its type, its default. The same model reads YAML, options and a plan's JSON. - `choices`:
sections that choose something by name (an algorithm, a data set …) with options of its own. - `scalars`: conversion of
single values. - `read`: a YAML file and settings to an `Experiment`, with findings at their places.
"""
