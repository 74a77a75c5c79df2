"""Real learner processes on this machine, each in a network namespace of its own, forked from one warmed parent."""
