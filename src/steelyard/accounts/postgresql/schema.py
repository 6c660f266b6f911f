"""The schema of the accounts database on PostgreSQL: which revision it has, and its way to another one."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, create_engine, text

_LOCK = 0x57EE1
"""Key of the advisory lock under which migrations run: of several processes one migrates, and the others wait."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def newest() -> str:
    """Return the revision that this version of Steelyard needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def present(connection: Connection) -> str | None:
    """Return the revision of a database; None where no migration has run."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate(url: URL, revision: str = "head") -> tuple[str | None, str]:
    """Bring the database to a revision, up or down, in one transaction; return the revisions before and after.

    Blocks. Raises SQLAlchemyError, and CommandError for a revision that this version does not know.
    """
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            # Waited for before the revision is read: another process may be making the tables.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            config = _config()
            config.attributes["connection"] = connection
            before = present(connection)
            down = revision == "base" or (before or "") > revision != "head"
            (command.downgrade if down else command.upgrade)(config, revision)
            return before, present(connection) or "base"
    finally:
        engine.dispose()
