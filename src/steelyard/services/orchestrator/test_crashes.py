"""The orchestrator dies between any two of its effects, and another goes on: everything happens once.

An effect is a write to the log, to the claims or to Kubernetes; it dies before and after each.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import pytest

from steelyard.accounts.claims import Claims
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import Quotas, QuotaSettings
from steelyard.services.orchestrator.test_secrets import Values
from steelyard.services.simulation.entities import (
    ACCOUNT,
    make_dataset,
    make_evaluation,
    make_method,
    make_module,
    make_safety_case,
    make_service,
)
from steelyard.services.simulation.platform import QUICK, PlatformHarness, until
from steelyard.sqlite import DatabaseError
from steelyard_kube.memory import Crash
from steelyard_kube.resource import SECRETS, Resource
from steelyard_schema.base import DyffEntity

EVALUATION = make_evaluation(annotations=[{"key": "steelyard/secret-provider", "value": "key"}])
NEEDED = (make_dataset(status="Ready"), make_service(status="Ready"))
CASE = make_safety_case()
NEEDED_BY_CASE = (make_dataset(status="Ready"), make_method(), make_module(status="Ready"))
SETTINGS = QUICK.model_copy(update={"keep_seconds": 0})


@dataclass
class Doom:
    """Death before the effect of this number, counted from 1; never, when it is 0."""

    left: int
    came: bool = False

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.came = True
            raise Crash


class Full:
    """Claims whose disk is full when one is to be released."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claims, name)

    async def release(self, id: str, now: datetime, leader: int) -> None:
        raise DatabaseError("accounts.db: database or disk is full")


class DoomedCalls:
    """Something whose effects are counted."""

    def __init__(self, target: Any, effects: set[str], doom: Doom) -> None:
        self._target, self._effects, self._doom = target, effects, doom

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if name not in self._effects:
            return member

        async def effect(*given: Any, **more: Any) -> Any:
            self._doom()
            answer = await member(*given, **more)
            self._doom()
            return answer

        return effect


def doomed(harness: PlatformHarness, doom: Doom) -> PlatformHarness:
    """The same observed, seen by an orchestrator that will die."""

    def count(verb: str, resource: Resource, name: str) -> None:
        if verb in {"create", "delete", "patch"} and resource.kind != "Lease":
            doom()

    harness.cluster.before_call = harness.cluster.after_call = count
    return PlatformHarness(
        DoomedCalls(harness.claims, {"apply", "admit", "release", "lead"}, doom),
        harness.limits,
        DoomedCalls(harness.log, {"publish"}, doom),
        harness.cluster,
        SETTINGS,
        secrets=harness.secrets,
    )


async def complete(harness: PlatformHarness, entity: DyffEntity) -> None:
    harness.pod(entity, "Succeeded")
    harness.finish(entity)
    await harness.update_status(entity, "Complete", source="informer")


async def terminate(harness: PlatformHarness, entity: DyffEntity) -> None:
    await harness.update_status(entity, "Terminated", "TerminateCommand")


@dataclass(frozen=True)
class Life:
    """A workflow's entity, the entities that it needs, and how it ends."""

    entity: DyffEntity
    needed: tuple[DyffEntity, ...]
    end: Callable[[PlatformHarness, DyffEntity], Awaitable[None]]
    status: str
    secrets: int = 0
    """Kubernetes Secrets that the workflow needs."""


async def live(harness: PlatformHarness, life: Life) -> None:
    """Live through an entity's life, from creation to its last trace."""
    entity = life.entity
    await harness.create(*life.needed, entity)

    async def admitted() -> bool:
        said = await harness.status(entity.id) == "Admitted"
        assert not said or harness.resource(entity), "it was said before it was so"
        secrets = len(harness.cluster.store.objects(SECRETS))
        assert not said or secrets == life.secrets, "its Pods would wait for it"
        return said

    async def over() -> bool:
        claim = await harness.claim(entity.id)
        return claim is not None and claim.released_at is not None and harness.resource(entity) is None

    await until(admitted)
    await life.end(harness, entity)
    await until(over)


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(Life(EVALUATION, NEEDED, complete, "Complete", 1), id="an evaluation that completes"),
        pytest.param(
            Life(EVALUATION, NEEDED, terminate, "Terminated", 1), id="an evaluation that is terminated"
        ),
        pytest.param(Life(CASE, NEEDED_BY_CASE, complete, "Complete"), id="a safety case that completes"),
        pytest.param(
            Life(CASE, NEEDED_BY_CASE, terminate, "Terminated"), id="a safety case that is terminated"
        ),
    ],
)
async def test_between_any_two_effects(life: Life) -> None:
    number, died = 0, True
    while died:
        number += 1
        died = await _one_life(number, life)
    assert number > 20, "it was to die between all of its effects"


async def _one_life(number: int, life: Life) -> bool:
    """Return whether it came to die."""
    accounts_database, doom = await open_accounts_database("memory:"), Doom(number)
    secrets = Values({(ACCOUNT, "key"): "value"})
    harness = PlatformHarness(
        accounts_database.claims, Quotas(QuotaSettings()), settings=SETTINGS, secrets=secrets
    )
    harness.aggregate()
    first = doomed(harness, doom).start()
    first.add_done_callback(lambda _: _succeed(harness))
    try:
        await live(harness, life)
        assert await harness.status(life.entity.id) == life.status
        assert harness.creations(life.entity) == 1
        assert harness.cluster.store.objects(SECRETS) == [], "a value outlives its workflow"
        assert (await harness.reports(life.entity.id)).count(("Admitted", None)) <= 2
    finally:
        with suppress(BaseException):
            await harness.kill(first)
        await harness.close()
        await accounts_database.close()
    return doom.came


async def test_claims_that_cannot_be_written_end_the_orchestrator() -> None:
    """The orchestrator starts again, as with every failure of an engine; it does not try again for ever."""
    accounts_database = await open_accounts_database("memory:")
    secrets = Values({(ACCOUNT, "key"): "value"})
    claims = cast(Claims, Full(accounts_database.claims))
    harness = PlatformHarness(claims, Quotas(QuotaSettings()), settings=SETTINGS, secrets=secrets)
    harness.aggregate()
    running = harness.start()
    try:
        await harness.create(*NEEDED, EVALUATION)

        async def admitted() -> bool:
            return await harness.status("e1") == "Admitted"

        await until(admitted)
        await complete(harness, EVALUATION)
        async with asyncio.timeout(60):
            await asyncio.wait([running])
        assert running.exception() is not None
    finally:
        with suppress(BaseException):
            await harness.kill(running)
        await harness.close()
        await accounts_database.close()


def _succeed(harness: PlatformHarness) -> None:
    harness.cluster.before_call = harness.cluster.after_call = None
    harness.start()
