"""Times for which what a user deletes is kept. The reaper and the aggregator keep to it; the command line says it."""

from datetime import datetime, timedelta

DELETED_FOR = timedelta(days=7)
"""Time from an entity's deletion until it is forgotten."""
FILES_FOR = timedelta(days=7)
"""Time for which a forgotten entity can be restored: after it, its files go."""


def forget_time(deleted: datetime) -> datetime:
    """Return when an entity is forgotten that was deleted then."""
    return deleted + DELETED_FOR


def files_until(forgotten: datetime) -> datetime:
    """Return until when an entity that was forgotten then can be restored, and has its files."""
    return forgotten + FILES_FOR
