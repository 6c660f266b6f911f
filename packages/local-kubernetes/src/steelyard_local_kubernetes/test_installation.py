"""Tests of definitions at a start."""

from steelyard_common.types import copy_value
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import CRDS
from steelyard_local_kubernetes.definitions.building import EMBEDDED
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_schema.definitions import load_definitions


async def test_only_definitions_that_differ_are_written() -> None:
    """Each write costs all checks of a schema; another project's definition stays as it is."""
    cluster = MemoryCluster()
    ours, queue, foreign = load_definitions()[0], *list_definitions()[:2]
    for definition in (*load_definitions(), *list_definitions()):
        crd = await cluster.create(CRDS, copy_value(definition))
        name, conditions = crd["metadata"]["name"], [{"type": "Established", "status": "True"}]
        await cluster.patch(CRDS, name, {"status": {"conditions": conditions}}, subresource="status")
    await cluster.patch(CRDS, ours["metadata"]["name"], {"spec": {"scope": "old"}})
    await cluster.patch(CRDS, queue["metadata"]["name"], {"spec": {"scope": "old"}})
    another = {"metadata": {"annotations": {EMBEDDED: None}}, "spec": {"scope": "another's"}}
    await cluster.patch(CRDS, foreign["metadata"]["name"], another)
    calls: list[tuple[str, str]] = []
    cluster.before_call = lambda verb, resource, name: calls.append((verb, name))
    await install_definitions(cluster, load_definitions())
    assert calls == [
        ("list", ""),
        ("patch", ours["metadata"]["name"]),
        ("patch", queue["metadata"]["name"]),
        ("list", ""),
    ]
    scopes = [
        (await cluster.get(CRDS, crd["metadata"]["name"]))["spec"]["scope"] for crd in (ours, queue, foreign)
    ]
    assert scopes == [ours["spec"]["scope"], queue["spec"]["scope"], "another's"]
