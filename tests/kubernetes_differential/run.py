"""Runs cases on a server, several at a time, and returns normalised answers."""

import asyncio
from pathlib import Path

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case
from tests.kubernetes_differential.client import Client
from tests.kubernetes_differential.hooks import hook_server
from tests.kubernetes_differential.normal import normal

AT_ONCE = 6


async def _all(cases: list[Case], kubeconfig: Path, accounts: bool, tidy: bool) -> dict[str, list[Json]]:
    places = asyncio.Semaphore(AT_ONCE)
    async with (
        hook_server() as places_of_hooks,
        Client(kubeconfig, accounts=accounts, tidy=tidy, places=places_of_hooks) as client,
    ):

        async def one(case: Case) -> list[Json]:
            async with places:
                answers, names = await client.run(case)
            return normal(answers, names, managed=case.managed)

        async with asyncio.TaskGroup() as tasks:
            running = {case.name: tasks.create_task(one(case)) for case in cases}
    return {name: task.result() for name, task in running.items()}


def answers(
    cases: list[Case], kubeconfig: Path, *, accounts: bool = False, tidy: bool = False
) -> dict[str, list[Json]]:
    """Answers by case."""
    return asyncio.run(_all(cases, kubeconfig, accounts, tidy))
