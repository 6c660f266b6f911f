"""An index of claims by kind: quotas, and the entities that were created within a time."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the index."""
    op.execute("CREATE INDEX claims_by_kind ON claims (kind, created)")


def downgrade() -> None:
    """Remove the index."""
    op.execute("DROP INDEX claims_by_kind")
