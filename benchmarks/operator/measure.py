"""One measurement: a fresh API server, N Evaluations, one operator, until every Evaluation is Complete.

The operator starts last; the clock runs from its first write to the last end, as a watch sees them. The writes of an
operator are those of the whole cluster less the benchmark's own, so that both are counted by the same rule.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.operator.cluster import IN_FLIGHT, TOKEN
from benchmarks.peers import peer_python
from steelyard.operator.jobs import Step, job_and_config
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import make_evaluation
from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.resource import EVALUATIONS, JOBS, Resource

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SETTINGS = OperatorSettings(storage="file:///storage")
PATIENCE = 900.0


@dataclass(frozen=True)
class Figures:
    """Figures of one operator."""

    operator: str
    resources: int
    seconds: float
    writes: int
    processor_seconds: float
    memory_mb: float
    starting_seconds: float
    """Processor seconds before its first write, which are part of `processor_seconds`."""

    @property
    def rate(self) -> float:
        return self.resources / self.seconds

    @property
    def milliseconds_per_write(self) -> float:
        return 1000 * self.processor_seconds / self.writes


@contextmanager
def process(command: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def measure(operator: str, resources: int, folder: Path, patience: float = PATIENCE) -> Figures:
    """Raises TimeoutError where not every Evaluation has ended in time."""
    with process([sys.executable, "-m", "benchmarks.operator.cluster", str(folder)]) as server:
        deadline = time.monotonic() + PATIENCE
        while not (folder / "kubeconfig").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the API server did not start")
            time.sleep(0.05)
        return asyncio.run(_measure(operator, resources, folder, patience))


async def _measure(operator: str, resources: int, folder: Path, patience: float) -> Figures:
    cluster = await connect(folder / "kubeconfig")
    try:
        await _make(cluster, resources)
        before = int((await cluster.list(EVALUATIONS)).resource_version)
        command, environment = _command(operator, folder)
        with process(command, **environment) as running:
            span = await watched(cluster, EVALUATIONS, resources, _complete, before, running, patience)
            used, memory = processor(running.pid), peak_memory(running.pid)
        after = int((await cluster.list(EVALUATIONS)).resource_version)
        jobs = len((await cluster.list(JOBS)).items)
        writes = after - before - jobs
        return Figures(operator, resources, span.ended - span.began, writes, used, memory, span.starting)
    finally:
        await cluster.close()


async def _make(cluster: RestCluster, resources: int) -> None:
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        evaluation = make_evaluation(f"evaluation-{number:05d}", inferenceSessionReference="b1")
        metadata = {"name": evaluation["metadata"]["name"], "namespace": "default"}
        async with limit:
            await cluster.create(EVALUATIONS, {**evaluation, "metadata": metadata})

    await asyncio.gather(*(one(number) for number in range(resources)))


@dataclass(frozen=True)
class Span:
    """Times of the first write and of the last end, and the operator's processor seconds before the first write."""

    began: float
    ended: float
    starting: float


async def watched(
    cluster: RestCluster,
    resource: Resource,
    count: int,
    ended: Callable[[Json], bool],
    version: int,
    running: subprocess.Popen[bytes],
    patience: float = PATIENCE,
) -> Span:
    """Return when the first of `count` resources was written after `version`, and when the last one had
    ended. Raises TimeoutError after `patience` seconds.
    """
    began, starting, done, seen = 0.0, 0.0, set[str](), str(version)
    async with asyncio.timeout(patience):
        while len(done) < count:
            if running.poll() is not None:
                raise SystemExit(f"the operator exited {running.returncode}")
            async for event in cluster.watch(resource, resource_version=seen, timeout_seconds=5):
                seen = event.object["metadata"]["resourceVersion"]
                if event.type == "BOOKMARK":
                    continue
                if not began:
                    began, starting = time.monotonic(), processor(running.pid)
                if ended(event.object):
                    done.add(event.object["metadata"]["name"])
                if len(done) == count:
                    break
    return Span(began, time.monotonic(), starting)


def _complete(evaluation: Json) -> bool:
    return (evaluation.get("status") or {}).get("status") == "Complete"


def _command(operator: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    kubeconfig = folder / "kubeconfig"
    if operator == "steelyard":
        return [sys.executable, "-m", "benchmarks.operator.steelyard_operator", str(kubeconfig)], {}
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    templates = folder / "templates.json"
    templates.write_text(json.dumps(_templates()))
    environment = {
        "API": cluster["server"],
        "TOKEN": TOKEN,
        "CA": str(folder / "pki" / "ca.crt"),
        "TEMPLATES": str(templates),
    }
    command = ["-m", "kopf", "run", "--quiet", "-n", "default", str(HERE / "kopf_operator.py")]
    return [str(peer_python("kopf")), *command], environment


def _templates() -> dict[str, list[tuple[str, str]]]:
    """The objects of both steps as text, for kopf's operator to fill in."""
    evaluation = make_evaluation("NAME", inferenceSessionReference="b1", id="b2")
    evaluation["metadata"] |= {"name": "name-of-it", "uid": "UID-OF-IT"}
    made = {}
    for name, module in (("client", "evaluation_client"), ("verify", "verify_evaluation_output")):
        config, job = job_and_config(evaluation, Step(name, module, 7200), 1, 7200, SETTINGS)
        made[name] = [(_path(config), _text(config)), (_path(job), _text(job))]
    return made


def _text(obj: Json) -> str:
    return json.dumps(obj, separators=(",", ":")).replace("name-of-it", "NAME-OF-IT")


def _path(obj: Json) -> str:
    core = obj["apiVersion"] == "v1"
    plural = {"ConfigMap": "configmaps", "Job": "jobs"}[obj["kind"]]
    return f"/{'api' if core else 'apis'}/{obj['apiVersion']}/namespaces/default/{plural}"
