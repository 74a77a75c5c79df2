"""The terminal: one module per verb; each parses its options, calls the rooms behind it and prints."""
