"""Whole runs, judged by what they learn: shapes of published figures, on small data."""
