"""Node ports that the server chooses."""

import random
from pathlib import Path

import pytest

from steelyard_local_kubernetes.apiserver.admission.test_cluster_addresses import PORTS, make_service, started


class LowestNumber(random.SystemRandom):
    def randint(self, a: int, b: int) -> int:
        return a


async def test_the_lowest_ports_are_left_to_manifests_that_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "SystemRandom", LowestNumber)
    first = make_service("first", type="NodePort")
    named = make_service("named", type="NodePort", ports=[PORTS[0] | {"nodePort": 30_005}])
    services = await started(tmp_path, "127.210.128.0/17", first, named)
    numbers = {name: services[name]["spec"]["ports"][0]["nodePort"] for name in ("first", "named")}
    assert numbers == {"first": 30_086, "named": 30_005}
