"""Times as the Kubernetes API writes them: whole seconds, in UTC."""

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """Return a time as the API writes it; fractions of a second are cut."""
    return f"{moment.astimezone(UTC).isoformat()[:19]}Z"  # in a third of the time of `strftime`


def parse_time(text: str) -> datetime:
    """Parse a time of the API, or of a program that writes the same form. Nanoseconds are cut."""
    moment = datetime.fromisoformat(text)
    # RFC 3339 demands a zone; some programs leave it out and mean UTC.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_optional_time(text: str | None) -> datetime | None:
    """Parse a time that an object may leave out."""
    return parse_time(text) if text else None
