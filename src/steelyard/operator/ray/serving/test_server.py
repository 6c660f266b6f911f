"""The operator's servers as parts of its process: what ends them, and what they end."""

import asyncio
import socket

import pytest

from steelyard.operator.ray.serving.server import serving
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.errors import SteelyardError
from steelyard_kube.leader import LeaseLost
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import Resource

SETTINGS = RaySettings(admission=True, login="127.0.0.1:0", listen="127.0.0.1:0")


async def test_what_the_operator_raises_comes_out_as_it_is() -> None:
    async def lead() -> None:
        async with serving(MemoryCluster(), SETTINGS) as served:
            assert served.url.startswith("https://127.0.0.1:")
            raise LeaseLost

    with pytest.raises(LeaseLost):
        await lead()


async def test_an_address_that_is_taken_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = SETTINGS.model_copy(update={"login": where})
        with pytest.raises(SteelyardError, match=f"operator.ray.login: cannot listen on {where}"):
            async with serving(MemoryCluster(), settings):
                raise AssertionError("it cannot begin")


async def test_a_server_that_fails_ends_its_process() -> None:
    cluster = MemoryCluster()

    def fail(verb: str, resource: Resource, name: str) -> None:
        if resource.kind == "Secret":
            raise TypeError("a defect")

    async def wait() -> None:
        async with serving(cluster, SETTINGS):
            await asyncio.Event().wait()

    cluster.before_call = fail
    with pytest.raises(ExceptionGroup) as raised:
        await wait()
    assert [str(error) for error in raised.value.exceptions] == ["a defect"]
