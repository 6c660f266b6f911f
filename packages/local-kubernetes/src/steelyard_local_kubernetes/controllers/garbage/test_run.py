"""The collector while it knows other kinds than the server serves."""

from typing import cast

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.resource import CONFIG_MAPS, Resource
from steelyard_kube.served import KindVersion
from steelyard_local_kubernetes.controllers.garbage.run import Collector, ServingCluster
from steelyard_local_kubernetes.faults import Faults

WIDGETS = Resource("example.dev", "v2", "widgets", "Widget")
OWNER: Json = {"apiVersion": "example.dev/v2", "kind": "Widget", "name": "owner", "uid": "1"}
CHILD: Json = {"metadata": {"name": "child", "namespace": "default", "uid": "2", "ownerReferences": [OWNER]}}


class Server:
    """A server that has a ConfigMap, and answers that its owner is not found."""

    def __init__(self, details: Json) -> None:
        self.details = details
        self.deleted: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        if resource == CONFIG_MAPS:
            return CHILD
        raise NotFound("it is not there", details=self.details)

    async def delete(self, resource: Resource, name: str, namespace: str | None, **options: str) -> None:
        self.deleted.append(name)


@pytest.mark.parametrize(
    ("details", "deleted"),
    [({"name": "owner", "kind": "widgets"}, ["child"]), ({}, [])],
    ids=["the owner is missing", "its version is served no more"],
)
async def test_only_a_missing_owner_takes_its_dependents_along(details: Json, deleted: list[str]) -> None:
    server = Server(details)
    collector = Collector(cast(ServingCluster, server), Faults())
    collector.graph.follow([KindVersion(WIDGETS, frozenset(), preferred=True)])
    await collector.sync((CONFIG_MAPS, "default", "child"))
    assert server.deleted == deleted
