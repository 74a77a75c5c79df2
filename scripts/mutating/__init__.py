"""What `scripts/mutations` is made of: finds what a row of `mutations.toml` names, breaks it in a copy, runs its tests.

`rows` reads the list. `scopes` (a function), `places` (what in it, by `kinds` and `parts`), `operators` (what is done
to that) and `edits` turn a row into the text of a broken file without touching any; `templates` does so for files that
are not Python. `trees` and `trials` run tests in copies of the checkout. `listing` prints the rows that a function
could have, as `descriptions` calls their places. `command` is the command.
"""
