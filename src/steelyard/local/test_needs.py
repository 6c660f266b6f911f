"""Tests of the lines of a service's `/readyz`: each engine and each right that it lacks, by name."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.local.engines import Engines, open_engines
from steelyard.local.needs import NEEDED, Needs
from steelyard.local.process import SERVICES
from steelyard.settings import Settings, load
from steelyard_kube.cluster import Resource
from steelyard_kube.errors import Forbidden
from steelyard_kube.memory import MemoryCluster


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(None, tmp_path)


@pytest.fixture
async def opened(settings: Settings) -> AsyncIterator[Engines]:
    async with open_engines(settings) as engines:
        yield engines


def test_the_needs_of_every_service_are_known() -> None:
    assert NEEDED.keys() == set(SERVICES)


@pytest.mark.parametrize("name", NEEDED)
async def test_a_service_on_engines_that_answer_lacks_nothing(
    name: str, opened: Engines, settings: Settings
) -> None:
    assert await Needs(opened, settings, [name]).missing() == []


async def test_an_engine_that_fails_is_named_where_it_is_needed(opened: Engines, settings: Settings) -> None:
    await opened.accounts_database.close()
    (line,) = await Needs(opened, settings, ["webhooks"]).missing()
    assert line.startswith(f"accounts {settings.accounts}: ")
    assert await Needs(opened, settings, ["aggregator"]).missing() == []


async def test_a_right_that_is_missing_is_named(opened: Engines, settings: Settings) -> None:
    cluster = MemoryCluster()

    def refuse(verb: str, resource: Resource, name: str) -> None:
        raise Forbidden(f"{resource.plural} is forbidden")

    needs = Needs(opened, settings, ["informer"])
    needs.add_cluster(cluster, "steelyard-informer", "system")
    assert await needs.missing() == []
    cluster.before_call = refuse
    needs = Needs(opened, settings, ["informer"])
    needs.add_cluster(cluster, "steelyard-informer", "system")
    assert await needs.missing() == [
        "kubernetes, for steelyard-informer: cannot read lease system/steelyard-informer: leases is forbidden"
    ]
