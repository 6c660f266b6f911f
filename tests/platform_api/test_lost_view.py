"""A view that was lost is built again; until it is whole, no answer says that something does not exist."""

from dataclasses import replace

from steelyard.views.in_memory import MemoryView
from tests.platform_api.memory_platform import make_engines, make_platform, model, running_services


async def test_what_a_lost_view_does_not_show_yet_is_not_missing() -> None:
    engines = await make_engines()
    async with make_platform(engines) as platform:
        made = await platform.created("models", **model())
        await platform.settled("Model", made["id"])
        await platform.app.api.relay.flush()
    lost = replace(engines, view=MemoryView())
    async with make_platform(lost, services=False) as platform:
        for path in (f"/models/{made['id']}", "/models", f"/models/{made['id']}/logs/workflow"):
            answer = await platform.admin.get(path)
            assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1"), path
        async with running_services(lost):
            await platform.settled("Model", made["id"])
            assert (await platform.admin.get(f"/models/{made['id']}")).json()["id"] == made["id"]
            assert [entity["id"] for entity in (await platform.admin.get("/models")).json()] == [made["id"]]
            assert (await platform.admin.get("/models/absent")).status_code == 404
    await engines.accounts_database.close()
