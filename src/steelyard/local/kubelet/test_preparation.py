"""Tests of what a Pod waits for before its containers are made."""

import pytest

from steelyard.kube.memory import MemoryCluster
from steelyard.kube.resource import PERSISTENT_VOLUME_CLAIMS
from steelyard.local.kubelet.env import VolumeMissing
from steelyard.local.kubelet.preparation import ensure_bound
from steelyard.types import Json


def pod_with(claim: str) -> Json:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": [volume]}}


@pytest.mark.parametrize("name", ["data/sub", "data/status", "a/..", "..", "UPPER", "a\x00b"])
async def test_a_pod_waits_for_a_claim_that_no_claim_can_be(name: str) -> None:
    """The API takes any name; as a path it would lead into another claim."""
    cluster = MemoryCluster()
    claim = {"metadata": {"name": "data", "namespace": "default"}, "status": {"phase": "Bound"}}
    await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim)
    with pytest.raises(VolumeMissing, match="is not found: no claim can have this name"):
        await ensure_bound(cluster, pod_with(name))


async def test_a_claim_without_an_object_is_a_folder_too() -> None:
    await ensure_bound(MemoryCluster(), pod_with("data"))
