"""A job that a user follows or waits for: events, signals, screens, and a cluster that is away."""

import asyncio
import io
import json
import logging
from collections.abc import Callable

import pytest

from steelyard.cli.train import control
from steelyard.cli.train.cluster import WATCHES, ClusterTarget, outages_told
from steelyard.cli.train.follower import Follower
from steelyard.cli.train.foreground import Session
from steelyard.cli.train.screen import Lines, Live, Plain, bar, open_screen
from steelyard.clusters.training.doubles import condition, make_job, make_pod, set_status, store
from steelyard.clusters.training.errors import WaitedTooLong
from steelyard.clusters.training.following import follow
from steelyard.clusters.training.view import JobView
from steelyard_common.errors import UsageError
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import EVENTS


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  (another task does it)
            await asyncio.sleep(0.002)


FAILURE = {"type": "Worker", "index": 0, "exitCode": 7, "action": "Fail", "message": "ValueError: boom"}


async def test_why_there_are_no_pods_is_read_from_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.clusters.training.following.WARNING_SECONDS", 0.005)
    cluster, out = MemoryCluster(), io.StringIO()
    created = {**condition("Created"), "lastTransitionTime": "2026-01-01T00:00:05Z"}
    view = await store(cluster, make_job(conditions=[created]))
    for second, message in ((4, "of the past"), (6, "exceeded quota")):
        event = {
            "reason": "FailedCreatePod",
            "message": message,
            "lastTimestamp": f"2026-01-01T00:00:0{second}Z",
        }
        about = {
            "involvedObject": {"uid": view.uid},
            "metadata": {"name": f"e{second}", "namespace": "default"},
        }
        await cluster.create(EVENTS, {**event, **about})
    follower = Follower(Plain(out), view, raw=True)
    running = asyncio.ensure_future(follower.run(follow(cluster, view)))
    await until(out.getvalue)
    await set_status(cluster, view, conditions=["Failed"])
    await running
    assert out.getvalue() == "pytorchjob/digits waits: FailedCreatePod: exceeded quota\n"


async def test_who_waits_hears_why(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MemoryCluster()
    view = await store(cluster)
    with pytest.raises(WaitedTooLong, match="it is Created"):
        await control.wait_for_end(cluster, view, 0.02)
    running = asyncio.ensure_future(control.wait_for_end(cluster, view, 60))
    await make_pod(cluster, view, "worker-0", ["1 hello"])
    await set_status(cluster, view, conditions=["Suspended"])
    said: list[str] = []

    def heard() -> bool:
        said.append(capsys.readouterr().err)
        return any(said)

    await until(heard)
    await set_status(cluster, view, conditions=["Succeeded"])
    assert (await running).state == "Succeeded"
    assert "".join(said) + capsys.readouterr().err == "pytorchjob/digits is stopped\n"


def test_without_a_terminal_two_signals_at_once_are_one() -> None:
    session = Session(
        MemoryCluster(), JobView(make_job()), ClusterTarget("default", None), Plain(io.StringIO())
    )
    for at in (1.0, 1.05, 2.0):
        session._take_signal(15, lambda at=at: at)  # type: ignore[misc]
    assert session._signals.qsize() == 2


def test_a_live_line_stays_below_what_scrolls_and_a_question_in_sight() -> None:
    out = io.StringIO()
    screen = Live(out, clock=lambda: 0.0)
    screen.status("half", {"progress": {"share": 0.5}})
    screen.line("worker-0", "text", "")
    screen.hold(True)
    screen.line("worker-0", "kept", "")
    assert out.getvalue().count("half") == 2
    assert "kept" not in out.getvalue()
    screen.ends({}, "over")
    assert out.getvalue().index("kept") < out.getvalue().index("over")
    assert bar(0.5) == f"{'━' * 10}{'─' * 10} 50 %"


def test_programs_get_a_line_of_json_for_each_event() -> None:
    out = io.StringIO()
    screen = Lines(out)
    screen.line("worker-0", "text", "t")
    for _ in range(2):
        screen.status("", {"state": "Running"})
    screen.ends({"exit": 0}, "")
    assert [json.loads(text)["event"] for text in out.getvalue().splitlines()] == ["line", "status", "ends"]
    with pytest.raises(UsageError, match="live, plain, json or none"):
        open_screen("loud")


async def test_a_session_ends_as_its_job_does() -> None:
    cluster, out = MemoryCluster(), io.StringIO()
    view = await store(cluster)
    await make_pod(cluster, view, "worker-0", ["1 hello"])
    session = Session(cluster, view, ClusterTarget("default", None), Plain(out))
    running = asyncio.ensure_future(session.run())
    await until(lambda: "hello" in out.getvalue())
    await set_status(cluster, view, conditions=["Failed"], failures=[FAILURE])
    ended = await asyncio.wait_for(running, 30)
    assert (ended.exit_code, ended.detached) == (7, False)
    assert "worker-0 | hello" in out.getvalue()


def suspended(cluster: MemoryCluster, view: JobView) -> bool:
    """Return whether the job is asked to stop."""
    job = cluster.store.find(view.type, view.name, view.namespace)
    assert job
    return bool(job["spec"]["runPolicy"].get("suspend"))


@pytest.mark.parametrize(("signals", "exit_code", "stopped"), [(1, 130, False), (2, 130, True)])
async def test_without_a_terminal_one_signal_leaves_a_job_and_two_stop_it(
    signals: int, exit_code: int, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.cli.train.foreground.DECIDE_SECONDS", 60.0 if stopped else 0.05)
    cluster, out = MemoryCluster(), io.StringIO()
    view = await store(cluster)
    session = Session(cluster, view, ClusterTarget("default", None), Plain(out))
    running = asyncio.ensure_future(session.run())
    for _ in range(signals):
        session._signals.put_nowait(2)
    if stopped:
        await until(lambda: suspended(cluster, view))
        await set_status(cluster, view, conditions=["Suspended"])
    ended = await asyncio.wait_for(running, 30)
    assert (ended.exit_code, ended.detached) == (exit_code, not stopped)
    assert suspended(cluster, view) is stopped
    assert ("train resume digits" in out.getvalue()) is stopped


def test_a_cluster_that_is_away_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with outages_told():
        for _ in range(3):
            logging.getLogger(WATCHES).warning("cannot follow pods")
    assert capsys.readouterr().err == "the cluster does not answer; trying again; the jobs continue\n"
