"""Definitions of the kinds of Ray, Kueue and AppWrapper: each version has a kind, and each is marked."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.custom import read_kinds
from steelyard_local_kubernetes.apiserver.rules.crds import schema_causes
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_schema.definitions import load_definitions


def test_all_definitions_are_marked_and_give_a_kind_for_each_version() -> None:
    served: dict[tuple[str, str], str] = {}
    for definition in list_definitions():
        assert definition["metadata"]["annotations"] == {"steelyard/embedded": "true"}
        for kind in read_kinds(definition):
            served[kind.group, kind.kind] = served.get((kind.group, kind.kind), "") + f" {kind.version}"
    assert served == {
        ("ray.io", "RayCluster"): " v1",
        ("ray.io", "RayJob"): " v1",
        ("workload.codeflare.dev", "AppWrapper"): " v1beta2",
        ("kueue.x-k8s.io", "ClusterQueue"): " v1beta2 v1beta1",
        ("kueue.x-k8s.io", "Cohort"): " v1beta2 v1beta1",
        ("kueue.x-k8s.io", "LocalQueue"): " v1beta2 v1beta1",
        ("kueue.x-k8s.io", "ResourceFlavor"): " v1beta2 v1beta1",
        ("kueue.x-k8s.io", "Workload"): " v1beta2 v1beta1",
        ("kueue.x-k8s.io", "WorkloadPriorityClass"): " v1beta2 v1beta1",
    }


@pytest.mark.parametrize(
    "definition",
    [*load_definitions(), *list_definitions()],
    ids=lambda definition: str(definition["metadata"]["name"]),
)
def test_the_server_finds_no_fault_in_our_own_schemas(definition: Json) -> None:
    """A start does not look for them: it would take a second."""
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert schema_causes(schema, "schema", status="status" in version.get("subresources", {})) == []
