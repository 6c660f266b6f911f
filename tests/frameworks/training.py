"""One example, run to its end: a replica is killed a third of the way, and the promised response follows."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.clusters.training.progress import parse
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import CONFIG_MAPS, PODS
from tests.frameworks.examples import Example
from tests.integration.conftest import Machine, is_true

SECONDS = 600.0
LABEL = "training.kubeflow.org/job-name"


@dataclass(frozen=True)
class ProgressReport:
    """One report of progress."""

    pod: str
    """Uid of the Pod."""
    step: int
    total: int
    accuracy: float
    loss: float


@dataclass
class Course:
    """Course of a job as it was seen. Times are in seconds since it was created."""

    first: float = 0.0
    """Accuracy at the first report."""
    last: float = 0.0
    first_loss: float = 0.0
    last_loss: float = 0.0
    killed: float | None = None
    step: int = 0
    """Step at which the replica was killed."""
    resumed: float | None = None
    """Time of the next sign of life: of a Pod that came after, or, where all others go on, of any."""
    resumed_at: int = 0
    """Step of the next sign of life."""
    ended: float = 0.0
    before: Mapping[str, str] = field(default_factory=dict)
    """Pods and their uids, before the kill."""
    after: dict[str, str] = field(default_factory=dict)
    status: Json = field(default_factory=dict)


class Logs:
    """Logs of the Pods of a state folder, read as they grow: a file of the kubelet for each run of a
    container.
    """

    def __init__(self, pods: Path) -> None:
        self.pods = pods
        self._read: dict[Path, int] = {}

    def new(self, uid: str) -> list[ProgressReport]:
        lines = []
        for path in sorted((self.pods / uid).glob("*/[0-9]*.log")):
            text = path.read_bytes()[self._read.get(path, 0) :]
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                if (report := parse(line)) is not None:
                    lines.append(_said(uid, report.values))
        return lines


def _said(uid: str, values: Mapping[str, float]) -> ProgressReport:
    return ProgressReport(
        uid, int(values["step"]), int(values["total"]), float(values["accuracy"]), float(values["loss"])
    )


def kill(pods: Path, uid: str) -> None:
    """-9 to the first process of the Pod's container; its shim sees to the others."""
    started = max((pods / uid).glob("*/[0-9]*.started"), key=lambda path: int(path.stem))
    os.kill(json.loads(started.read_bytes())["pid"], signal.SIGKILL)


async def train(machine: Machine, example: Example, victim: str, checkpoints: Path) -> Course:
    """Create the job, kill a replica on the way, wait for the end."""
    async with machine.cluster() as cluster:
        code, job = example.manifests(checkpoints)
        await cluster.create(CONFIG_MAPS, code)
        await cluster.create(example.jobs, job)
        course = Course()
        try:
            async with asyncio.timeout(SECONDS):
                await _follow(machine.state.pods, cluster, example, victim, course)
        except TimeoutError:
            print(f"{example.name}: not over within {SECONDS:.0f} s", flush=True)
        return course


async def _follow(pods: Path, cluster: Cluster, example: Example, victim: str, course: Course) -> None:
    began, logs = time.monotonic(), Logs(pods)
    alone = example.alone(victim)
    while True:
        names = await _pods(cluster, example)
        for said in [line for uid in names.values() for line in logs.new(uid)]:
            now = time.monotonic() - began
            course.first, course.last = course.first or said.accuracy, said.accuracy
            course.first_loss, course.last_loss = course.first_loss or said.loss, said.loss
            if course.killed is None and said.step * 3 >= said.total:
                course.before, course.killed, course.step = names, now, said.step
                kill(pods, names[f"{example.job}-{victim}"])
            elif course.killed is not None and (said.pod not in course.before.values() or alone):
                course.resumed, course.resumed_at = course.resumed or now, course.resumed_at or said.step
        course.after.update(names)
        job = await cluster.get(example.jobs, example.job, "default")
        course.status = job.get("status") or {}
        if is_true("Succeeded")(job) or is_true("Failed")(job):
            course.ended = time.monotonic() - began
            return
        await asyncio.sleep(0.1)


async def _pods(cluster: Cluster, example: Example) -> dict[str, str]:
    pods = await cluster.list(PODS, "default", label_selector=f"{LABEL}={example.job}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods.items}


def faults(example: Example, victim: str, course: Course) -> list[str]:
    """Return the faults of a course."""
    renewed = {name for name, uid in course.before.items() if course.after.get(name) != uid}
    expected = set() if example.alone(victim) else set(course.before)  # alone: again in its own Pod
    status = course.status
    checks = {
        f"did not succeed: {json.dumps(status.get('conditions'))}": is_true("Succeeded")({"status": status}),
        "was over before a replica could be killed": course.killed is not None,
        f"accuracy {course.last:.3f} is below {example.accuracy}": course.last >= example.accuracy,
        f"accuracy did not rise: {course.first:.3f}, {course.last:.3f}": course.last > course.first,
        f"loss did not fall: {course.first_loss:.3f}, {course.last_loss:.3f}": course.last_loss
        < course.first_loss,
        f"the result is {status.get('results')}, not {course.last}": not example.leader_ends
        or (status.get("results") or {}).get("accuracy") == course.last,
        f"{status.get('restarts')} restarts, not 1: {_failures(status)}": status.get("restarts") == 1,
        f"new Pods: {sorted(renewed)}, not {sorted(expected)}": renewed == expected,
        f"went on at step {course.resumed_at}, killed at {course.step}: no checkpoint": course.resumed_at
        >= course.step,
    }
    return [fault for fault, holds in checks.items() if not holds]


def _failures(status: Json) -> str:
    return "\n".join(
        f"{failure['pod']}: {failure.get('message', '')}" for failure in status.get("failures") or ()
    )
