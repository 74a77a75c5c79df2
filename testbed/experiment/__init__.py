"""Experiments: reads a file, or options of the command line, into one validated `Experiment`.

- `language`: every key, its type, its default. The same model reads YAML, options and a plan's JSON.
- `choices`: sections that choose something by name (an algorithm, a data set …), with its options.
- `scalars`: conversion of single values.
- `read`: reads a YAML file and settings into an `Experiment`, with findings at their places.
"""
