"""The accounts database on a real PostgreSQL."""
