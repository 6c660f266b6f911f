"""Labels of accounts, in a column of their own: versions from before read an account's JSON only as they know it."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the labels; older accounts start without labels."""
    op.execute("ALTER TABLE accounts ADD COLUMN labels text NOT NULL DEFAULT '{}'")


def downgrade() -> None:
    """Remove the labels; every account stays."""
    op.execute("ALTER TABLE accounts DROP COLUMN labels")
