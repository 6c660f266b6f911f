"""The view in one SQLite file."""
