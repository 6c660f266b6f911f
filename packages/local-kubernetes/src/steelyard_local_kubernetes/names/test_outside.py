"""Names of services outside: their addresses are those that the machine knows."""

import asyncio

from steelyard_local_kubernetes.names.outside import OutsideNames


async def test_a_name_that_the_machine_knows_has_its_addresses() -> None:
    changed = asyncio.Event()
    names = OutsideNames(changed.set)
    names.follow(["localhost", "no such name"])
    await asyncio.wait_for(changed.wait(), 60)
    assert names.addresses == {"localhost": ("127.0.0.1",)}
    names.follow([])
    assert names.addresses == {}
    await names.close()
