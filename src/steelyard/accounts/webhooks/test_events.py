"""Ends of entities that become events, and those that lie too far back."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.accounts.webhooks.events import REPORTED_FOR, make_event

END = datetime(2026, 1, 1, tzinfo=UTC)
CONTENT = {
    "id": "e1",
    "kind": "Evaluation",
    "account": "acme",
    "status": "Complete",
    "creationTime": "2025-12-31T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("age", "reported"),
    [(timedelta(0), True), (REPORTED_FOR, True), (REPORTED_FOR + timedelta(seconds=1), False)],
)
def test_an_end_is_an_event_for_a_while(age: timedelta, reported: bool) -> None:
    """Reported ends are not known for ever: an older one might be reported twice."""
    assert (make_event(CONTENT, "https://example.com", END + age) is not None) is reported
