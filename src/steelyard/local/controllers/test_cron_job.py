"""Tests of CronJobs: when Jobs are due, policies about those that run, history, and crashes."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.kube.memory import Crash, CrashAt, MemoryCluster
from steelyard.kube.resource import CRON_JOBS, JOBS
from steelyard.local.controllers.cron_job import LONGEST_LOOK, SCHEDULED
from steelyard.local.controllers.decision import Event
from steelyard.local.controllers.kinds import CRON_JOB
from steelyard.local.controllers.objects import TEMPLATE, StoreView
from steelyard.local.controllers.sync import Edge, sync
from steelyard.types import Json

KEY = ("default", "nightly")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A CronJob on the in-memory cluster; each Job that it creates runs until the test ends it."""

    def __init__(self, schedule: str = "*/10 * * * *", **spec: Any) -> None:
        self.time = BEGIN
        self.events: list[Event] = []
        self.cluster = MemoryCluster(now=lambda: self.time)
        labels = {"metadata": {"labels": {"team": "a"}}, "spec": {"template": TEMPLATE}}
        self.cluster.store.put({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": labels, **spec},
        })  # fmt: skip
        record = lambda obj, event: self.events.append(event)  # noqa: E731
        self.edge = Edge(self.cluster, StoreView(self.cluster), lambda: self.time, record)

    async def at(self, **passed: float) -> float | None:
        """Let time pass since the begin, and sync twice: the second changes nothing."""
        self.time = BEGIN + timedelta(**passed)
        await sync(self.edge, CRON_JOB, KEY)
        version = self.cluster.store.version
        wait = await sync(self.edge, CRON_JOB, KEY)
        assert self.cluster.store.version == version
        return wait

    def end(self, name: str, kind: str = "Complete") -> None:
        stamp = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        status: Json = {"startTime": stamp, "conditions": [{"type": kind, "status": "True"}]}
        self.cluster.store.set_status(JOBS, name, "default", status | {"completionTime": stamp})

    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.cluster.store.objects(JOBS)]

    @property
    def cron_job(self) -> Json:
        stored = self.cluster.store.find(CRON_JOBS, "nightly", "default")
        assert stored is not None
        return stored

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


def named(**passed: float) -> str:
    return f"nightly-{int((BEGIN + timedelta(**passed)).timestamp()) // 60}"


async def test_a_job_is_created_at_its_time_and_the_status_says_so() -> None:
    world = World()
    assert await world.at(minutes=9, seconds=50) == pytest.approx(10.1)
    assert world.jobs() == []
    assert await world.at(minutes=10, seconds=3) == LONGEST_LOOK
    assert world.jobs() == [named(minutes=10)]
    job = world.cluster.store.objects(JOBS)[0]
    assert job["metadata"]["labels"] == {"team": "a"}
    assert job["metadata"]["annotations"] == {SCHEDULED: "2026-01-01T00:10:00Z"}
    status = world.cron_job["status"]
    assert (status["lastScheduleTime"], [job["name"] for job in status["active"]]) == (
        "2026-01-01T00:10:00Z",
        world.jobs(),
    )
    world.end(world.jobs()[0])
    await world.at(minutes=11)
    assert world.cron_job["status"] == {
        "lastScheduleTime": "2026-01-01T00:10:00Z",
        "lastSuccessfulTime": "2026-01-01T00:10:03Z",
    }
    assert world.reasons() == ["SuccessfulCreate", "SawCompletedJob"]


async def test_of_many_missed_times_only_the_latest_runs() -> None:
    world = World()
    await world.at(hours=30, minutes=4)
    assert world.jobs() == [named(hours=30)]
    assert "TooManyMissedTimes" in world.reasons()


async def test_a_time_that_is_too_long_ago_does_not_run() -> None:
    world = World(startingDeadlineSeconds=60)
    await world.at(minutes=15)
    assert world.jobs() == []
    await world.at(minutes=20, seconds=59)
    assert world.jobs() == [named(minutes=20)]


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        pytest.param("Allow", [10, 20], id="Allow"),
        pytest.param("Forbid", [10], id="Forbid"),
        pytest.param("Replace", [20], id="Replace"),
    ],
)
async def test_policies_about_a_job_that_still_runs(policy: str, jobs: list[int]) -> None:
    world = World(concurrencyPolicy=policy)
    await world.at(minutes=10)
    await world.at(minutes=20)
    assert world.jobs() == [named(minutes=minute) for minute in jobs]
    assert ("JobAlreadyActive" in world.reasons()) is (policy == "Forbid")
    for name in world.jobs():
        world.end(name)
    await world.at(minutes=30)
    assert named(minutes=30) in world.jobs()


async def test_a_job_that_was_forbidden_starts_when_the_other_has_ended() -> None:
    world = World(concurrencyPolicy="Forbid")
    await world.at(minutes=10)
    await world.at(minutes=20)
    world.end(named(minutes=10))
    await world.at(minutes=24)
    assert world.jobs() == [named(minutes=10), named(minutes=20)]


async def test_a_suspended_schedule_starts_nothing_and_keeps_its_books() -> None:
    world = World()
    await world.at(minutes=10)
    world.cluster.store.put({**world.cron_job, "spec": {**world.cron_job["spec"], "suspend": True}})
    world.end(world.jobs()[0])
    assert await world.at(minutes=20) is None
    assert (len(world.jobs()), "active" in world.cron_job["status"]) == (1, False)


async def test_old_jobs_beyond_the_history_go() -> None:
    world = World(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for minutes, kind in ((10, "Complete"), (20, "Failed"), (30, "Complete"), (40, "Complete")):
        await world.at(minutes=minutes)
        world.end(named(minutes=minutes), kind)
    await world.at(minutes=41)
    assert world.jobs() == [named(minutes=40)]


async def test_a_job_made_by_hand_is_not_one_of_the_schedule() -> None:
    world = World(concurrencyPolicy="Forbid")
    uid = world.cron_job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    metadata = {"name": "manual", "namespace": "default", "ownerReferences": [owner]}
    world.cluster.store.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}})
    await world.at(minutes=10)
    assert [job["name"] for job in world.cron_job["status"]["active"]] == [named(minutes=10)]


async def test_a_schedule_in_a_zone() -> None:
    world = World("30 9 * * *", timeZone="Asia/Kolkata")
    await world.at(hours=4)
    (job,) = world.cluster.store.objects(JOBS)
    assert job["metadata"]["annotations"][SCHEDULED] == "2026-01-01T09:30:00+05:30"


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_between_any_two_calls_loses_no_run_and_repeats_none(after: bool) -> None:
    for call in range(1, 30):
        world = World()
        crash = CrashAt(call)
        setattr(world.cluster, "after_call" if after else "before_call", crash)
        for minute in (10, 20):
            world.time = BEGIN + timedelta(minutes=minute)
            for _ in range(3):
                with suppress(Crash):
                    await sync(world.edge, CRON_JOB, KEY)
            world.end(named(minutes=minute))
            for _ in range(2):
                with suppress(Crash):
                    await sync(world.edge, CRON_JOB, KEY)
        assert world.jobs() == [named(minutes=10), named(minutes=20)], f"crash at call {call}"
        assert world.cron_job["status"]["lastScheduleTime"] == "2026-01-01T00:20:00Z"
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")
