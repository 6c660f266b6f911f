"""The accounts database in one SQLite file."""
