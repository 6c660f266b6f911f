"""Rights of the release beside what its parts asked of the API, as the API server's audit log has it."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.rights import RIGHTS, Right
from steelyard_common.types import Json
from tests.engines.chart.helm import NAMESPACE, RELEASE
from tests.engines.chart.suite import AUDIT_LOG, KUBECONFIG

pytestmark = pytest.mark.skipif(KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one")
GIVEN = {
    "operator": ("operator", "leading"),
    "platform": ("orchestrator", "informer", "leading"),
}
"""Names of the rights of each account in the shape standalone."""
TRAINING = ("kubeflow.org", "dljobs", "frameworks")
"""Group and resources of training jobs, which do not occur in the story."""
UNTOLD: Mapping[str, Mapping[str, str]] = {
    "operator": {
        "create": "models pods",
        "delete": "jobs mutatingwebhookconfigurations pods services validatingwebhookconfigurations",
        "get": "analyses configmaps datasets datasources deployments inferenceservices jobs pods services",
        "list": "events",
        "patch": "analyses/status configmaps datasets/status datasources/status events pods services",
    },
    "platform": {
        "create": "analyses datasets datasources inferencesessions",
        "delete": "analyses audits datasets datasources evaluations inferenceservices inferencesessions models "
        "reports secrets",
        "get": "analyses datasets datasources inferencesessions namespaces secrets",
        "patch": "secrets",
    },
}
"""Other rights of each account that the story does not need, by verb: for objects that are deleted, for kinds that do
not occur in it, and after a crash or a refusal.
"""


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


def test_what_is_refused_is_for_work_that_is_not_switched_on() -> None:
    switched_off = spread([*RIGHTS["mpi"], *RIGHTS["elastic"], *RIGHTS["ray"]])
    for account in GIVEN:
        assert {asked for asked, allowed in requests(account) if not allowed} <= switched_off


@pytest.mark.parametrize("account", GIVEN)
def test_the_story_needs_each_right_but_those_that_are_listed(account: str) -> None:
    used = {asked for asked, allowed in requests(account) if allowed}
    given = spread(right for name in GIVEN[account] for right in RIGHTS[name])
    assert used <= given | {asked for asked in used if asked.group in {"", "authorization.k8s.io"}}
    unused = {
        f"{asked.verb} {asked.resource}"
        for asked in given - used
        if asked.group not in TRAINING and asked.resource.partition("/")[0] not in TRAINING
    }
    listed = {
        f"{verb} {resource}" for verb, resources in UNTOLD[account].items() for resource in resources.split()
    }
    assert sorted(unused - listed) == []
