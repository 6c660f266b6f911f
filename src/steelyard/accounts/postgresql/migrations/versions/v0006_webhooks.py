"""Webhooks, the events that wait for them, which ends were reported, and how far the log was read."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the tables, empty."""
    for statement in (
        "CREATE TABLE webhooks ("
        " id text PRIMARY KEY, account text NOT NULL, json text NOT NULL, status text NOT NULL DEFAULT 'Active',"
        " reason text, message text, generation integer NOT NULL DEFAULT 1,"
        " rotated double precision NOT NULL DEFAULT 0, failures integer NOT NULL DEFAULT 0,"
        " failing_since double precision NOT NULL DEFAULT 0, rest_until double precision NOT NULL DEFAULT 0,"
        " leased_until double precision NOT NULL DEFAULT 0, delivered bigint NOT NULL DEFAULT 0,"
        " dropped bigint NOT NULL DEFAULT 0, last_delivery double precision NOT NULL DEFAULT 0)",
        "CREATE INDEX webhooks_by_account ON webhooks (account)",
        "CREATE TABLE webhook_deliveries ("
        " number bigserial PRIMARY KEY, hook text NOT NULL, event text NOT NULL, kind text NOT NULL,"
        " account text NOT NULL, entity text NOT NULL, body text NOT NULL, created double precision NOT NULL,"
        " attempts integer NOT NULL DEFAULT 0)",
        "CREATE INDEX webhook_deliveries_by_hook ON webhook_deliveries (hook, attempts, number)",
        "CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created)",
        "CREATE TABLE webhook_reported ("
        " entity text PRIMARY KEY, event text NOT NULL, ended double precision NOT NULL)",
        "CREATE INDEX webhook_reported_by_age ON webhook_reported (ended)",
        "CREATE TABLE webhook_positions ("
        " epoch bigint NOT NULL, partition integer NOT NULL, next bigint NOT NULL,"
        " PRIMARY KEY (epoch, partition))",
    ):
        op.execute(statement)


def downgrade() -> None:
    """Remove the tables, with all webhooks."""
    for table in ("webhooks", "webhook_deliveries", "webhook_reported", "webhook_positions"):
        op.execute(f"DROP TABLE {table}")
