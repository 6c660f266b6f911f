"""Rights of the release beside what its parts asked of the API, as the API server's audit log has it.

Both ways: nothing is asked without a right, and each right is used, or is listed here with the reason why not.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.rights import RIGHTS, Right, allow
from steelyard_common.types import Json
from steelyard_kube.resource import (
    ANALYSES,
    CONFIG_MAPS,
    DATA_SOURCES,
    DATASETS,
    DEPLOYMENTS,
    DYFF,
    EVENTS,
    FRAMEWORKS,
    INFERENCE_SESSIONS,
    JOBS,
    MODELS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    TRAINING,
    VALIDATING_WEBHOOKS,
)
from tests.engines.chart.helm import NAMESPACE, RELEASE
from tests.engines.chart.suite import AUDIT_LOG, KUBECONFIG

needs_cluster = pytest.mark.skipif(
    KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one"
)
GIVEN = {
    "operator": ("operator", "leading"),
    "platform": ("orchestrator", "informer", "leading"),
}
"""Names of the rights of each account in the shape standalone."""
_WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_ABSENT = (ANALYSES, DATASETS, DATA_SOURCES)
"""Kinds that do not occur in the story."""
_WORKFLOWS = tuple(resource for resource in DYFF if resource not in _ABSENT)
UNUSED: Mapping[str, Mapping[str, Sequence[Right]]] = {
    "operator": {
        "training jobs do not occur in the story": (
            *allow("get delete", *TRAINING),
            *allow("get", FRAMEWORKS),
            *allow("patch", *TRAINING, subresource="status"),
            *allow("create", MODELS),
            *allow("create delete patch", PODS),
            *allow("delete patch", SERVICES),
            *allow("patch", CONFIG_MAPS),
        ),
        "neither do these kinds": (*allow("get", *_ABSENT), *allow("patch", *_ABSENT, subresource="status")),
        "no operator with the Ray side was there before": allow("delete", *_WEBHOOKS),
    },
    "platform": {
        "these kinds do not occur in the story": allow("create get", *_ABSENT),
        "the operator makes the sessions of evaluations": allow("create get", INFERENCE_SESSIONS),
        "nothing is deleted or ended": allow("delete", SECRETS, *DYFF),
    },
}
"""Rights of each account that the story never uses, by reason."""
BY_CHANCE: Mapping[str, Mapping[str, Sequence[Right]]] = {
    "operator": {
        "the status has changed since it was read": allow("get", *_WORKFLOWS),
        "a child is there already": allow("get", CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, SERVICES),
        "an event is recorded again": allow("patch", EVENTS),
        "a Job has no Pod": allow("list", EVENTS),
        "a step is tried again": allow("delete", JOBS),
    },
    "platform": {
        "a namespace is compared with the settings again": (
            *allow("get", NAMESPACES),
            *allow("get patch", SECRETS),
        ),
    },
}
"""Rights of each account that the story uses or does not, by what decides it."""


class RequestedRight(NamedTuple):
    """Verb and resource of a request: `group` is the API group, `resource` may have a subresource."""

    verb: str
    group: str
    resource: str


def requests(account: str) -> Iterator[tuple[RequestedRight, bool]]:
    """Yield what an account of the release asked, and whether it was allowed."""
    user = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{account}"
    log = Path(os.environ[KUBECONFIG]).parent / AUDIT_LOG
    for line in log.read_text().splitlines():
        entry: Json = json.loads(line)
        where = entry.get("objectRef")
        if entry["user"]["username"] == user and where:
            names = (where["resource"], where.get("subresource"))
            asked = RequestedRight(entry["verb"], where.get("apiGroup", ""), "/".join(filter(None, names)))
            yield asked, entry["annotations"]["authorization.k8s.io/decision"] == "allow"


def spread(rights: Iterable[Right]) -> set[RequestedRight]:
    return {
        RequestedRight(verb, right.group, resource)
        for right in rights
        for verb in right.verbs
        for resource in right.resources
    }


@needs_cluster
def test_what_is_refused_is_for_work_that_is_not_switched_on() -> None:
    switched_off = spread([*RIGHTS["mpi"], *RIGHTS["elastic"], *RIGHTS["ray"]])
    for account in GIVEN:
        assert {asked for asked, allowed in requests(account) if not allowed} <= switched_off


def given_to(account: str) -> set[RequestedRight]:
    return spread(right for name in GIVEN[account] for right in RIGHTS[name])


@needs_cluster
@pytest.mark.parametrize("account", GIVEN)
def test_nothing_is_allowed_that_the_chart_does_not_give(account: str) -> None:
    used = {asked for asked, allowed in requests(account) if allowed}
    assert sorted(used - given_to(account)) == []


@needs_cluster
@pytest.mark.parametrize("account", GIVEN)
def test_the_story_uses_each_right_but_those_that_are_listed(account: str) -> None:
    used = {asked for asked, allowed in requests(account) if allowed}
    unused = given_to(account) - used - spread(itertools.chain(*BY_CHANCE[account].values()))
    listed = spread(itertools.chain(*UNUSED[account].values()))
    assert (sorted(unused - listed), sorted(listed & used)) == ([], []), (
        "unused without a reason; used all the same"
    )


@pytest.mark.parametrize("account", GIVEN)
def test_each_listed_right_is_given_and_listed_once(account: str) -> None:
    listed = [
        asked
        for table in (UNUSED, BY_CHANCE)
        for rights in table[account].values()
        for right in rights
        for asked in spread([right])
    ]
    assert set(listed) <= given_to(account)
    assert len(listed) == len(set(listed))
