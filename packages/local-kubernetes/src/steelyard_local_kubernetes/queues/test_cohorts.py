"""Quotas of a tree of cohorts: how much may be used, is lent, is kept."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.queues.cohorts import Quota, quotas

KEY = "machine", "cpu"


def make_queue(name: str, cohort: str = "", **limits: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"cohortName": cohort, "resourceGroups": make_groups(limits)}}


def make_cohort(name: str, parent: str = "", **limits: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": make_groups(limits)}}


def make_groups(limits: dict[str, Any]) -> list[Json]:
    if not limits:
        return []
    resources = [{"name": "cpu", **limits}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "machine", "resources": resources}]}]


def use(quota: Quota, amount: float) -> None:
    quota.add({KEY: amount})


@pytest.mark.parametrize(
    ("own", "other", "capacity"),
    [
        ({}, {}, 14),
        ({"borrowingLimit": "3"}, {}, 7),
        ({"borrowingLimit": "0"}, {}, 4),
        ({}, {"lendingLimit": "2"}, 6),
        ({}, {"lendingLimit": "0"}, 4),
        ({"borrowingLimit": "3"}, {"lendingLimit": "2"}, 6),
        ({"lendingLimit": "0"}, {}, 14),
    ],
)
def test_the_most_that_a_queue_may_use(own: Json, other: Json, capacity: float) -> None:
    made = quotas([
        make_queue("a", "team", nominalQuota="4", **own),
        make_queue("b", "team", nominalQuota="10", **other),
    ])  # fmt: skip
    assert made["a"].capacity(*KEY) == capacity
    assert made["a"].free(*KEY) == capacity


def test_what_is_kept_is_free_whatever_the_others_use() -> None:
    made = quotas([
        make_queue("a", "team", nominalQuota="4", lendingLimit="1"),
        make_queue("b", "team", nominalQuota="10"),
    ])  # fmt: skip
    use(made["b"], 11)
    assert (made["a"].free(*KEY), made["b"].free(*KEY)) == (3, 0)
    use(made["a"], 3)
    assert made["a"].free(*KEY) == 0


def test_what_is_borrowed_is_missing_where_it_came_from() -> None:
    made = quotas([
        make_queue("a", "team", nominalQuota="4"),
        make_queue("b", "team", nominalQuota="4", borrowingLimit="2"),
    ])  # fmt: skip
    use(made["b"], 6)
    assert (made["a"].free(*KEY), made["b"].free(*KEY)) == (2, 0)


def test_a_queue_without_a_cohort_has_its_own_alone() -> None:
    made = quotas([make_queue("a", nominalQuota="4"), make_queue("b", nominalQuota="9")])
    use(made["a"], 1)
    assert (made["a"].capacity(*KEY), made["a"].free(*KEY)) == (4, 3)


def test_cohorts_borrow_from_each_other_through_the_one_above_within_their_limits() -> None:
    made = quotas(
        [make_queue("a", "left", nominalQuota="4"), make_queue("b", "right", nominalQuota="10")],
        [
            make_cohort("left", "top", nominalQuota="2", borrowingLimit="3"),
            make_cohort("right", "top", nominalQuota="0", lendingLimit="5"),
            make_cohort("top", nominalQuota="1"),
        ],
    )
    assert made["a"].capacity(*KEY) == 4 + 2 + 3
    assert made["b"].capacity(*KEY) == 10 + 6 + 1
    use(made["a"], 9)
    assert made["a"].free(*KEY) == 0
    assert made["b"].free(*KEY) == 10 + 6 + 1 - 9


def test_a_parent_that_is_only_named_lends_without_quota_of_its_own() -> None:
    made = quotas(
        [make_queue("a", "left", nominalQuota="4"), make_queue("b", "right", nominalQuota="10")],
        [make_cohort("left", "top"), make_cohort("right", "top")],
    )
    assert made["a"].capacity(*KEY) == 14


def test_a_cycle_is_seen_and_others_are_not_touched() -> None:
    made = quotas(
        [make_queue("a", "x", nominalQuota="1"), make_queue("b", "z", nominalQuota="1")],
        [make_cohort("x", "y"), make_cohort("y", "x"), make_cohort("z")],
    )
    assert (made["a"].in_cycle(), made["b"].in_cycle()) == (True, False)
