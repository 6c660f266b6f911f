"""`kill -9` of `steelyard up` and of each of its processes while the demo's story runs on the platform.

Whatever was acknowledged is there in the end, once; no workflow runs twice. The demo's client, and one that edits
labels, are never killed. STEELYARD_KILL_SEED repeats a run's choices.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

import pytest

from steelyard.cli.demo.digits import Digits, make
from steelyard.cli.demo.story import ACCOUNT, DemoResult, Story
from steelyard.cli.display import NoDisplay
from steelyard.client import Client, ClientError
from steelyard.local.state import read_record
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError
from steelyard_kube.resource import JOBS
from steelyard_schema.names import account_namespace
from tests.integration.conftest import Machine, processes_of

VICTIMS = ("platform", "supervisor", "kubernetes", "operator")
PAUSE = (0.2, 4.0)
"""Seconds between two kills: nothing that takes longer than the longest could ever end."""
SEED = int(os.environ.get("STEELYARD_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
MADE = {
    "datasets": 1,
    "models": 2,
    "inferenceservices": 2,
    "evaluations": 2,
    "reports": 2,
    "audits": 2,
    "auditprocedures": 1,
}

pytestmark = pytest.mark.e2e


async def kill_while_stories_are_told(machine: Machine, folder: Path, count: int) -> None:
    """`count` kills; when the story has ended before the last of them, it runs again on another machine."""
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    rng, victims, digits = random.Random(SEED), cycle(VICTIMS), make(folder / "digits")
    left, place = count, machine
    while left:
        place.up()
        try:
            left -= await tell_with_kills(place, digits, left, victims, rng)
        finally:
            place.down()
        assert processes_of(place.state.path) == []
        place = Machine(folder / f"state-{left}")


def strike(machine: Machine, victim: str) -> None:
    """SIGKILL; processes killed with the supervisor are started again by the next `up`, and so is the supervisor."""
    record = read_record(machine.state)
    children = {name: pid for name, (pid, _) in record.children.items()}
    pid = record.pid if victim == "supervisor" else children.get(victim, record.pid)
    os.kill(pid, signal.SIGKILL)
    if pid == record.pid:
        machine.up()


async def tell_with_kills(
    machine: Machine,
    digits: Digits,
    most: int,
    victims: Iterator[str],
    rng: random.Random,
    strike: Callable[[Machine, str], None] = strike,
    pause: tuple[float, float] = PAUSE,
) -> int:
    """Run the story with kills on a machine that is up; return how many fell into it, at most `most`.

    `pause` bounds the seconds between two kills.
    """
    kills = 0
    with machine.client(tries=30) as client, machine.client(tries=30) as editor:
        story = Story(client, NoDisplay(), timeout=900)
        telling = asyncio.create_task(asyncio.to_thread(story.run, digits))
        editing = asyncio.create_task(asyncio.to_thread(edit_labels, editor, telling))
        while kills < most:
            await asyncio.wait([telling], timeout=rng.uniform(*pause))
            if telling.done():
                break
            victim, kills = next(victims), kills + 1
            print(f"killed {victim} with {len(story.rows)} entities made, {ended(story)} ended")
            await asyncio.to_thread(strike, machine, victim)
        audited = await telling
        edits = await editing
        await asyncio.to_thread(check, client, audited, edits)
    await check_jobs(machine)
    return kills


def ended(story: Story) -> int:
    return sum(row.status in {"Complete", "Ready"} for row in story.rows.values())


def edit_labels(client: Client, telling: "asyncio.Task[object]") -> range:
    """Edit a label of the first dataset as long as the story runs.

    Return what it may be then: the last number that was acknowledged, and the next one if that was asked for in vain
    when the story ended: an edit without an answer may have been accepted.
    """
    last = asked = 0
    while not telling.done():
        datasets = list(client.datasets.query(account=ACCOUNT))
        if datasets:
            asked = last + 1
            try:
                client.datasets.label(datasets[0].id, {"count": str(asked)})
            except ClientError:
                continue  # accepted, perhaps: the same number is asked for again
            last = asked
    return range(last, asked + 1)


def check(client: Client, audited: Sequence[DemoResult], edits: range, times: int = 1) -> None:
    """Check that the story ran so often, and that its last edit is one of `edits`."""
    for plural, wanted in MADE.items():
        entities = list(getattr(client, plural).query(account=ACCOUNT))
        assert len(entities) == wanted * times, f"{plural}: {[entity.id for entity in entities]}"
        assert {entity.status for entity in entities} <= {"Complete", "Ready"}, [
            entity.status for entity in entities
        ]
    dataset = next(iter(client.datasets.query(account=ACCOUNT)))
    assert edits.start > 0
    assert int(dataset.labels["count"]) in edits, "an acknowledged edit was lost"
    assert [audit.model.name for audit in audited] == ["digits-few", "digits-all"]


async def jobs_of(machine: Machine, namespace: str | None = None, seconds: float = 60) -> list[Json]:
    """All Jobs, or those of a namespace; an API that is away is waited for."""
    async with asyncio.timeout(seconds), machine.cluster() as cluster:
        while True:
            try:
                return list((await cluster.list(JOBS, namespace)).items)
            except ApiError:
                await asyncio.sleep(0.1)


async def check_jobs(machine: Machine, before: Sequence[Json] = (), times: int = 1) -> Sequence[Json]:
    """Each step of each of the story's workflows has run once: one Job, its first attempt, one Pod that succeeded.

    `before` are Jobs as they were seen earlier: some may have been removed since. Returns them with today's.
    """
    story = await jobs_of(machine, account_namespace(ACCOUNT))
    jobs = list({job["metadata"]["uid"]: job for job in (*before, *story)}.values())
    names = Counter(job["metadata"]["name"].rpartition("-a")[0] for job in jobs)
    assert set(names.values()) == {1}, [(job["metadata"]["name"], job.get("status")) for job in jobs]
    for job in jobs:
        assert (job.get("status") or {}).get("succeeded") == 1, (job["metadata"]["name"], job.get("status"))
    steps = Counter(name.rpartition("-")[2] for name in names)
    assert steps == {"client": 2 * times, "verify": 2 * times, "run": 6 * times}, steps
    return jobs


@pytest.mark.timeout(1200)
async def test_five_kills_while_the_story_runs(machine: Machine, tmp_path: Path) -> None:
    await kill_while_stories_are_told(machine, tmp_path, 5)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_twenty_kills_while_the_story_runs(machine: Machine, tmp_path: Path) -> None:
    await kill_while_stories_are_told(machine, tmp_path, 20)
