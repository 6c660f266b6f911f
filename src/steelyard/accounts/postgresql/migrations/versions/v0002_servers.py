"""API servers with leases, and the server that each row of the outbox belongs to."""

from alembic import op

revision = "0002"
down_revision = "0001"

# Rows from before have no server: the first one takes them over.
UPGRADE = """
CREATE TABLE outbox_servers (
    id text COLLATE "C" PRIMARY KEY, process text NOT NULL, expires timestamptz NOT NULL, renewals bigint NOT NULL
);
ALTER TABLE outbox ADD COLUMN server text NOT NULL DEFAULT '';
CREATE INDEX outbox_by_server ON outbox (server) WHERE NOT visible OR delivery = 'open';
"""
DOWNGRADE = """
DROP INDEX outbox_by_server;
ALTER TABLE outbox DROP COLUMN server;
DROP TABLE outbox_servers;
"""


def upgrade() -> None:
    """Add the servers."""
    op.execute(UPGRADE)


def downgrade() -> None:
    """Remove the servers; every row of the outbox stays."""
    op.execute(DOWNGRADE)
