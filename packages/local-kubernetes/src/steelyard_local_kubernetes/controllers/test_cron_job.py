"""Tests of CronJobs: when Jobs are due, policies about those that run, history, and crashes."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import CRON_JOBS, JOBS
from steelyard_local_kubernetes.controllers.cron_job import LONGEST_LOOK, SCHEDULED
from steelyard_local_kubernetes.controllers.decision import Event
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import CRON_JOB
from steelyard_local_kubernetes.controllers.objects import TEMPLATE, StoreView
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "nightly")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Simulation:
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
    simulation = Simulation()
    assert await simulation.at(minutes=9, seconds=50) == pytest.approx(10.1)
    assert simulation.jobs() == []
    assert await simulation.at(minutes=10, seconds=3) == LONGEST_LOOK
    assert simulation.jobs() == [named(minutes=10)]
    job = simulation.cluster.store.objects(JOBS)[0]
    assert job["metadata"]["labels"] == {"team": "a"}
    assert job["metadata"]["annotations"] == {SCHEDULED: "2026-01-01T00:10:00Z"}
    status = simulation.cron_job["status"]
    assert (status["lastScheduleTime"], [job["name"] for job in status["active"]]) == (
        "2026-01-01T00:10:00Z",
        simulation.jobs(),
    )
    simulation.end(simulation.jobs()[0])
    await simulation.at(minutes=11)
    assert simulation.cron_job["status"] == {
        "lastScheduleTime": "2026-01-01T00:10:00Z",
        "lastSuccessfulTime": "2026-01-01T00:10:03Z",
    }
    assert simulation.reasons() == ["SuccessfulCreate", "SawCompletedJob"]


async def test_of_many_missed_times_only_the_latest_runs() -> None:
    simulation = Simulation()
    await simulation.at(hours=30, minutes=4)
    assert simulation.jobs() == [named(hours=30)]
    assert "TooManyMissedTimes" in simulation.reasons()


async def test_a_time_that_is_too_long_ago_does_not_run() -> None:
    simulation = Simulation(startingDeadlineSeconds=60)
    await simulation.at(minutes=15)
    assert simulation.jobs() == []
    await simulation.at(minutes=20, seconds=59)
    assert simulation.jobs() == [named(minutes=20)]


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        pytest.param("Allow", [10, 20], id="Allow"),
        pytest.param("Forbid", [10], id="Forbid"),
        pytest.param("Replace", [20], id="Replace"),
    ],
)
async def test_policies_about_a_job_that_still_runs(policy: str, jobs: list[int]) -> None:
    simulation = Simulation(concurrencyPolicy=policy)
    await simulation.at(minutes=10)
    await simulation.at(minutes=20)
    assert simulation.jobs() == [named(minutes=minute) for minute in jobs]
    assert ("JobAlreadyActive" in simulation.reasons()) is (policy == "Forbid")
    for name in simulation.jobs():
        simulation.end(name)
    await simulation.at(minutes=30)
    assert named(minutes=30) in simulation.jobs()


async def test_a_job_that_was_forbidden_starts_when_the_other_has_ended() -> None:
    simulation = Simulation(concurrencyPolicy="Forbid")
    await simulation.at(minutes=10)
    await simulation.at(minutes=20)
    simulation.end(named(minutes=10))
    await simulation.at(minutes=24)
    assert simulation.jobs() == [named(minutes=10), named(minutes=20)]


async def test_a_suspended_schedule_starts_nothing_and_keeps_its_books() -> None:
    simulation = Simulation()
    await simulation.at(minutes=10)
    simulation.cluster.store.put(
        {**simulation.cron_job, "spec": {**simulation.cron_job["spec"], "suspend": True}}
    )
    simulation.end(simulation.jobs()[0])
    assert await simulation.at(minutes=20) is None
    assert (len(simulation.jobs()), "active" in simulation.cron_job["status"]) == (1, False)


async def test_old_jobs_beyond_the_history_go() -> None:
    simulation = Simulation(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for minutes, kind in ((10, "Complete"), (20, "Failed"), (30, "Complete"), (40, "Complete")):
        await simulation.at(minutes=minutes)
        simulation.end(named(minutes=minutes), kind)
    await simulation.at(minutes=41)
    assert simulation.jobs() == [named(minutes=40)]


async def test_a_job_made_by_hand_is_not_one_of_the_schedule() -> None:
    simulation = Simulation(concurrencyPolicy="Forbid")
    uid = simulation.cron_job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    metadata = {"name": "manual", "namespace": "default", "ownerReferences": [owner]}
    simulation.cluster.store.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}})
    await simulation.at(minutes=10)
    assert [job["name"] for job in simulation.cron_job["status"]["active"]] == [named(minutes=10)]


async def test_a_schedule_in_a_zone() -> None:
    simulation = Simulation("30 9 * * *", timeZone="Asia/Kolkata")
    await simulation.at(hours=4)
    (job,) = simulation.cluster.store.objects(JOBS)
    assert job["metadata"]["annotations"][SCHEDULED] == "2026-01-01T09:30:00+05:30"


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_between_any_two_calls_loses_no_run_and_repeats_none(after: bool) -> None:
    for call in range(1, 30):
        simulation = Simulation()
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for minute in (10, 20):
            simulation.time = BEGIN + timedelta(minutes=minute)
            for _ in range(3):
                with suppress(Crash):
                    await sync(simulation.edge, CRON_JOB, KEY)
            simulation.end(named(minutes=minute))
            for _ in range(2):
                with suppress(Crash):
                    await sync(simulation.edge, CRON_JOB, KEY)
        assert simulation.jobs() == [named(minutes=10), named(minutes=20)], f"crash at call {call}"
        assert simulation.cron_job["status"]["lastScheduleTime"] == "2026-01-01T00:20:00Z"
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")
