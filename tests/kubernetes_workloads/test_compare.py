"""The list of accepted differences stays short, and the comparison sees what differs."""

from tests.kubernetes_workloads.compare import ABSENT, AcceptedDifference, Difference, accepted, differences
from tests.kubernetes_workloads.run import cases

MOST_ACCEPTED = 10


def test_few_differences_are_accepted_and_each_has_its_reason() -> None:
    rows = accepted()
    assert len(rows) <= MOST_ACCEPTED
    assert all(len(row.reason.split()) > 5 for row in rows)


def test_accepted_differences_are_of_cases_that_exist() -> None:
    named = {case for row in accepted() for case in row.cases if "*" not in case}
    assert named <= set(cases())


def test_what_differs_is_named_by_its_place() -> None:
    here = {"a case": {"same": 1, "inner": {"x": 1, "y": [1, 2]}}}
    there = {"a case": {"same": 1, "inner": {"y": [1, 3], "z": 0}}}
    assert differences(here, there) == [
        Difference("a case", "inner/x", 1, ABSENT),
        Difference("a case", "inner/y", [1, 2], [1, 3]),
        Difference("a case", "inner/z", ABSENT, 0),
    ]


def test_a_case_that_could_not_be_seen_anywhere_differs() -> None:
    blind = {"a case": {"failure": "no such host"}}
    (row,) = differences(blind, blind)
    assert not AcceptedDifference(("another case",), "*", "").covers(row)
