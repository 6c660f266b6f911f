"""Alembic's environment: migrations run on the connection that `schema.py` hands over, in one transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
