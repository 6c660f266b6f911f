"""Migrations of the accounts database on PostgreSQL, by Alembic."""
