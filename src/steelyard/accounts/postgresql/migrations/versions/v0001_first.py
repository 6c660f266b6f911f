"""Accounts, keys, the outbox, claims and the log that they belong to."""

from alembic import op

revision = "0001"
down_revision: str | None = None

# Names are compared and sorted by their bytes (collation C), as SQLite does. Texts that may hold any character, NUL
# included, are JSON or bytes: PostgreSQL's own type for text refuses NUL.
UPGRADE = """
CREATE TABLE accounts (id text PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE, json text NOT NULL);
CREATE TABLE keys (
    id text COLLATE "C" PRIMARY KEY, account text, digest text NOT NULL, purpose text, expires timestamptz NOT NULL,
    json text NOT NULL
);
CREATE INDEX keys_by_account ON keys (account);
CREATE INDEX keys_by_end ON keys (expires);
CREATE TABLE signing_keys (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kid text NOT NULL UNIQUE, pem bytea NOT NULL,
    made timestamptz NOT NULL
);
CREATE TABLE version (only_row int PRIMARY KEY CHECK (only_row = 1), number bigint NOT NULL);
INSERT INTO version VALUES (1, 0);
CREATE TABLE account_requests (
    requester text NOT NULL, key text NOT NULL, request text NOT NULL, account text NOT NULL,
    PRIMARY KEY (requester, key)
);
CREATE TABLE outbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, command text NOT NULL UNIQUE, account text NOT NULL,
    kind text NOT NULL, entity text NOT NULL, created timestamptz NOT NULL, topic_key text NOT NULL,
    value bytea NOT NULL, headers bytea NOT NULL, request text NOT NULL, idempotency_key text, ends bigint NOT NULL,
    partition int, position bigint, delivery text NOT NULL, visible boolean NOT NULL DEFAULT false
);
CREATE INDEX outbox_by_idempotency ON outbox (account, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX outbox_by_request ON outbox (account, request, created);
CREATE INDEX outbox_pending ON outbox (kind, entity) WHERE NOT visible;
CREATE INDEX outbox_pending_entity ON outbox (entity) WHERE NOT visible;
CREATE INDEX outbox_unsent ON outbox (number) WHERE partition IS NULL AND NOT visible;
CREATE INDEX outbox_settled ON outbox (created) WHERE visible;
CREATE TABLE outbox_keys (
    account text NOT NULL, idempotency_key text NOT NULL, request text NOT NULL,
    PRIMARY KEY (account, idempotency_key)
);
CREATE TABLE claims (
    id text COLLATE "C" PRIMARY KEY, kind text NOT NULL, account text NOT NULL, status text NOT NULL,
    json bytea NOT NULL, epoch bigint NOT NULL, position bigint NOT NULL, created timestamptz NOT NULL,
    reason bytea, message bytea, blocked bytea NOT NULL, quantities bytea NOT NULL, admitted timestamptz,
    released timestamptz, terminal timestamptz
);
CREATE INDEX claims_unfinished ON claims (created, id)
    WHERE terminal IS NULL OR (admitted IS NOT NULL AND released IS NULL);
CREATE INDEX claims_held ON claims (admitted) WHERE admitted IS NOT NULL AND released IS NULL;
CREATE INDEX claims_admitted ON claims (admitted) WHERE admitted IS NOT NULL;
CREATE TABLE claim_positions (partition int PRIMARY KEY, epoch bigint NOT NULL, next bigint NOT NULL);
CREATE TABLE leader (
    only_row int PRIMARY KEY CHECK (only_row = 1), epoch bigint NOT NULL, owner text NOT NULL,
    since timestamptz NOT NULL
);
CREATE TABLE past_admissions (
    id text COLLATE "C" NOT NULL, kind text NOT NULL, account text NOT NULL, quantities bytea NOT NULL,
    created timestamptz NOT NULL, admitted timestamptz NOT NULL, released timestamptz NOT NULL,
    PRIMARY KEY (admitted, id)
);
CREATE TABLE origin (only_row int PRIMARY KEY CHECK (only_row = 1), log text NOT NULL, epoch bigint NOT NULL);
"""
TABLES = (
    "accounts, keys, signing_keys, version, account_requests, outbox, outbox_keys, claims, claim_positions, leader, "
    "past_admissions, origin"
)


def upgrade() -> None:
    """Create the tables."""
    op.execute(UPGRADE)


def downgrade() -> None:
    """Remove the tables, with everything in them."""
    op.execute(f"DROP TABLE {TABLES}")
