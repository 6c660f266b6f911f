"""The log in one SQLite file."""
