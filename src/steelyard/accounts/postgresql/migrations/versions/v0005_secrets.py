"""Secrets of accounts, as encrypted bytes."""

from alembic import op

revision = "0005"
down_revision = "0004"

# Byte by byte, as in SQLite: pages of secrets go on after a pair of names.
UPGRADE = """
CREATE TABLE secrets (
    account text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, key text NOT NULL, encrypted bytea NOT NULL,
    fingerprint text NOT NULL, created timestamptz NOT NULL, updated timestamptz NOT NULL, PRIMARY KEY (account, name)
);
"""


def upgrade() -> None:
    """Add the secrets."""
    op.execute(UPGRADE)


def downgrade() -> None:
    """Remove the secrets: earlier versions do not know them."""
    op.execute("DROP TABLE secrets")
