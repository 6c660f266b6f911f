"""The purpose of a session's key is its session, by an index: a session has a bounded number of keys."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Name the sessions of the keys that there are."""
    op.execute("UPDATE keys SET purpose = CAST(json AS jsonb) ->> 'subject' WHERE account IS NULL")
    op.execute("CREATE INDEX keys_by_session ON keys (purpose) WHERE account IS NULL")


def downgrade() -> None:
    """Remove the index; earlier versions read no purpose of a session's key."""
    op.execute("DROP INDEX keys_by_session")
