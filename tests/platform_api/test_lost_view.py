"""A view that was lost is built anew; until it is whole, nobody is told that something does not exist."""

from dataclasses import replace

from steelyard.views.in_memory import MemoryView
from tests.platform_api.world import make_engines, make_world, model, running_services


async def test_what_a_lost_view_does_not_show_yet_is_not_missing() -> None:
    engines = await make_engines()
    async with make_world(engines) as world:
        made = await world.created("models", **model())
        await world.settled("Model", made["id"])
        await world.app.api.relay.flush()
    lost = replace(engines, view=MemoryView())
    async with make_world(lost, services=False) as world:
        for path in (f"/models/{made['id']}", "/models", f"/models/{made['id']}/logs/workflow"):
            answer = await world.admin.get(path)
            assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1"), path
        async with running_services(lost):
            await world.settled("Model", made["id"])
            assert (await world.admin.get(f"/models/{made['id']}")).json()["id"] == made["id"]
            assert [entity["id"] for entity in (await world.admin.get("/models")).json()] == [made["id"]]
            assert (await world.admin.get("/models/absent")).status_code == 404
    await engines.accounts_database.close()
