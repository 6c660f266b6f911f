"""The group `client.admin` over a cluster in memory: cohorts in each version of Kueue, and without them."""

from typing import Any

import pytest

from steelyard.clusters import (
    BadConfig,
    Client,
    ClusterQueueConfig,
    CohortConfig,
    FlavorQuota,
    Quota,
    QuotaGroup,
    errors,
)
from steelyard.clusters.doubles import MemoryApi
from steelyard_kube.errors import Forbidden
from steelyard_kube.resource import Resource


def make_group(**quota: Any) -> QuotaGroup:
    return QuotaGroup(flavors=(FlavorQuota(flavor="machine", quotas={"cpu": Quota(nominal=4, **quota)}),))


@pytest.mark.parametrize(
    ("group", "cohort", "api_version", "field"),
    [
        (["v1beta2", "v1beta1"], ["v1beta2", "v1beta1"], "kueue.x-k8s.io/v1beta2", "cohortName"),
        (["v1beta1"], ["v1beta1"], "kueue.x-k8s.io/v1beta1", "cohort"),
        (["v1beta1", "v1alpha1"], ["v1alpha1"], "kueue.x-k8s.io/v1alpha1", "cohort"),
    ],
)
def test_a_cohort_is_made_shown_and_deleted_in_the_version_that_the_server_has(
    group: list[str], cohort: list[str], api_version: str, field: str
) -> None:
    memory = MemoryApi({"kueue.x-k8s.io": group})
    memory.kinds = {"cohorts": cohort, "clusterqueues": [version for version in group if "beta" in version]}
    config = CohortConfig(name="team", groups=(make_group(),))
    with Client(api=memory) as client:
        assert client.admin.create(config)["apiVersion"] == api_version
        made = client.admin.create(ClusterQueueConfig(name="all", groups=(make_group(),), cohort="team"))
        assert made["spec"][field] == "team"
        assert str(client.admin.cohort("team")) == "team: all"
        client.admin.delete(config)
        assert [(view.name, view.resource) for view in client.admin.cohorts()] == [("team", {})]


def test_cohorts_of_cohorts_are_shown_with_their_members() -> None:
    with Client(api=MemoryApi()) as client:
        client.admin.create(CohortConfig(name="team", parent="all"))
        client.admin.create(
            ClusterQueueConfig(name="q", groups=(make_group(borrowing_limit=2),), cohort="team")
        )
        assert [str(view) for view in client.admin.cohorts()] == ["all: team (a cohort)", "team, of all: q"]
        with pytest.raises(errors.NotFound, match="no Cohort other"):
            client.admin.cohort("other")


def test_a_kueue_without_cohorts_has_those_that_queues_name() -> None:
    memory = MemoryApi({"kueue.x-k8s.io": ["v1beta1"]})
    memory.kinds = {"cohorts": []}
    with Client(api=memory) as client:
        client.admin.create(ClusterQueueConfig(name="all", groups=(make_group(),), cohort="team"))
        assert [view.queues for view in client.admin.cohorts()] == [("all",)]
        with pytest.raises(errors.Unsupported, match="does not know Cohort"):
            client.admin.create(CohortConfig(name="team"))


def test_cohorts_that_may_not_be_listed_name_the_missing_right() -> None:
    memory = MemoryApi()

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if resource.plural == "cohorts":
            raise Forbidden('User "u" cannot list resource "cohorts" in API group "kueue.x-k8s.io"')

    memory.before_call = refuse
    with Client(api=memory) as client:
        client.admin.create(ClusterQueueConfig(name="all", groups=(make_group(),), cohort="team"))
        for call in (client.admin.cohorts, lambda: client.admin.cohort("team")):
            with pytest.raises(errors.Forbidden, match="missing right: list cohorts") as raised:
                call()
            assert raised.value.right is not None


def test_a_parent_in_a_version_that_may_drop_it_is_refused() -> None:
    memory = MemoryApi({"kueue.x-k8s.io": ["v1beta1", "v1alpha1"]})
    memory.kinds = {"cohorts": ["v1alpha1"]}
    with Client(api=memory) as client, pytest.raises(errors.Unsupported, match="v1beta1"):
        client.admin.create(CohortConfig(name="team", parent="all"))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: CohortConfig(name="a", parent="a"), "parent"),
        (
            lambda: CohortConfig(name="a", groups=(make_group(lending_limit=0),)),
            "groups.0.flavors.0.quotas.cpu",
        ),
        (
            lambda: ClusterQueueConfig(name="a", groups=(make_group(lending_limit=0),)),
            "groups.0.flavors.0.quotas.cpu",
        ),
    ],
)
def test_limits_without_anybody_to_lend_to_are_refused(make: Any, field: str) -> None:
    with pytest.raises(BadConfig) as raised:
        make()
    assert [fault.field for fault in raised.value.faults] == [field]
