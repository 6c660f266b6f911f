"""The transition table: final statuses stay, and every status is one that the kind has."""

import pytest

from steelyard.services.aggregator.transitions import is_allowed, transitions
from steelyard_schema.status import FOLLOWING, KINDS, TERMINAL, statuses


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_statuses_stick_and_deleted_is_the_end(kind: str) -> None:
    for transition in transitions(kind):
        assert {transition.before, transition.after} <= {*statuses(kind), "Terminated"}
        assert transition.before != "Deleted"
        if transition.before in TERMINAL:
            assert transition.after == "Deleted"
    assert is_allowed(kind, "orchestrator", "Admitted", "Admitted") == (kind in FOLLOWING)
    assert not is_allowed(kind, "informer", "Deleted", statuses(kind)[-3])
