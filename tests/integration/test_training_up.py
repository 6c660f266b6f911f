"""Training jobs on one machine, with real processes: two namespaces, definitions of others, an operator that dies.

Letters are those of `test_training.py`.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.clusters.training import find, wait
from steelyard_common.types import Json
from steelyard_kube.errors import Invalid
from steelyard_kube.resource import (
    CONFIG_MAPS,
    CRDS,
    DL_JOBS,
    FRAMEWORKS,
    MODELS,
    NAMESPACES,
    PODS,
    PYTORCH_JOBS,
    Resource,
)
from tests.integration.conftest import Machine, is_true, machine_at
from tests.integration.test_operator_kills import operator, process

EXAMPLE = Path(__file__).parents[2] / "examples" / "training" / "digits"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that is up, for all tests but that of the kills; jobs and Models are apart by their names."""
    with machine_at(tmp_path_factory.mktemp("running") / "state") as machine:
        machine.up("platform")
        yield machine


def make_job(name: str, command: list[str], *, restart: str = "ExitCode", **pod: Any) -> Json:
    """A PyTorchJob of a master and a worker; both run the command."""
    container = {
        "name": "pytorch",
        "image": "localhost/steelyard/steps",
        "command": command,
        **pod.pop("container", {}),
    }
    template = {"spec": {"containers": [container], **pod}}
    specs = {
        role: {"replicas": 1, "restartPolicy": restart, "template": template} for role in ("Master", "Worker")
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"pytorchReplicaSpecs": specs},
    }


# ---- H, I, L, and one whole lineage


TALK = """
import os, socket, time
rank, port, mine = os.environ["RANK"], int(os.environ["MASTER_PORT"]), os.environ["NAMESPACE"].encode()
if rank == "0":
    with socket.create_server(("0.0.0.0", port)) as server:
        server.accept()[0].sendall(mine)
else:
    for _ in range(300):
        try:
            said = socket.create_connection((os.environ["MASTER_ADDR"], port)).recv(64)
            break
        except OSError:
            time.sleep(0.1)
    assert said == mine, said
"""


async def test_I_jobs_of_one_name_in_two_namespaces_each_find_their_own_master(running: Machine) -> None:
    env = [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]
    job = make_job("twin", [sys.executable, "-c", TALK], restart="Never", container={"env": env})
    async with running.cluster() as cluster:
        for namespace in ("one", "two"):
            await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
            await cluster.create(PYTORCH_JOBS, {**job, "metadata": {"name": "twin", "namespace": namespace}})
        for namespace in ("one", "two"):
            ended = await wait(cluster, await find(cluster, "twin", namespace), timeout=60)
            assert ended.state == "Succeeded", ended.message


GET_JOB = """
import sys
from kubeflow.training import TrainingClient
job = TrainingClient(config_file=sys.argv[1]).get_job("plain", job_kind="PyTorchJob")
print(job.spec.run_policy is not None, job.spec.pytorch_replica_specs["Worker"].replicas)
"""


async def test_H_a_job_without_a_run_policy_is_read_by_the_published_client(running: Machine) -> None:
    await running.create(PYTORCH_JOBS, make_job("plain", ["true"]))
    command = [sys.executable, "-c", GET_JOB, str(running.state.kubeconfig)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "True 1\n", done.stderr


async def test_G_a_name_without_room_for_its_pods_is_refused_as_it_is_applied(running: Machine) -> None:
    async with running.cluster() as cluster:
        with pytest.raises(Invalid, match="63"):
            await cluster.create(PYTORCH_JOBS, make_job("j" * 63, ["true"]))
    longest = "j" * (63 - len("-worker-0"))
    await running.create(PYTORCH_JOBS, make_job(longest, ["true"], restart="Never"))
    await running.until(PYTORCH_JOBS, longest, is_true("Succeeded"))


WRITES = 'if [ "$RANK" = 0 ]; then echo weights > $STEELYARD_OUTPUT/model.txt; fi'


async def test_the_output_of_a_v1_job_becomes_a_model_that_outlives_it(running: Machine) -> None:
    job = make_job("writes", ["sh", "-c", WRITES], restart="Never")
    job["metadata"]["annotations"] = {"steelyard/output-model": "mine"}
    job["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 0, "cleanPodPolicy": "All"}
    await running.create(PYTORCH_JOBS, job)
    (model,) = await listed(running, MODELS, lambda model: model["spec"]["name"] == "mine", bool)
    made = await running.until(MODELS, model["metadata"]["name"], is_true("Ready"))
    await listed(
        running, PYTORCH_JOBS, lambda job: job["metadata"]["name"] == "writes", lambda jobs: not jobs
    )
    assert (
        running.state.storage / made["spec"]["storage"]["output"] / "model.txt"
    ).read_text() == "weights\n"


async def listed(
    machine: Machine, resource: Resource, names: Callable[[Json], bool], holds: Callable[[list[Json]], bool]
) -> list[Json]:
    """The objects in `default` that are meant, once something holds for them."""
    async with asyncio.timeout(60), machine.cluster() as cluster:
        while True:
            items = [item for item in (await cluster.list(resource, "default")).items if names(item)]
            if holds(items):
                return items
            await asyncio.sleep(0.1)


WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


async def test_L_definitions_and_objects_of_others_are_untouched_at_start_and_stop(running: Machine) -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await running.create(
        CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition}
    )
    widget = {"metadata": {"name": "w", "namespace": "default"}, "size": 3}
    async with running.cluster() as cluster:
        await established(running)
        before = [await cluster.create(WIDGETS, widget), await cluster.get(CRDS, "widgets.example.com")]
    running.down()
    running.up("platform")
    async with running.cluster() as cluster:
        after = [await cluster.get(WIDGETS, "w", "default"), await cluster.get(CRDS, "widgets.example.com")]
    assert after == before


async def established(machine: Machine) -> None:
    async with asyncio.timeout(60), machine.cluster() as cluster:
        while not is_true("Established")(await cluster.get(CRDS, "widgets.example.com")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_worker_killed_while_it_trains_costs_a_restart_and_the_output_becomes_a_model(
    running: Machine,
) -> None:
    """The example's manifests, as `kubectl apply -k` would make them, with pauses in which to kill."""
    program = {"metadata": {"name": "digits-train", "namespace": "default"}}
    await running.create(CONFIG_MAPS, {**program, "data": {"train.py": (EXAMPLE / "train.py").read_text()}})
    await running.create(FRAMEWORKS, yaml.safe_load((EXAMPLE / "framework.yaml").read_text()))
    job = json.loads(json.dumps(yaml.safe_load((EXAMPLE / "job.yaml").read_text())))
    job["metadata"]["namespace"] = "default"
    coordinator = job["spec"]["roles"]["coordinator"]["template"]["spec"]["containers"][0]
    coordinator["env"] = [{"name": "PAUSE", "value": "0.3"}]
    await running.create(DL_JOBS, job)
    outputs = running.state.outputs / "default"
    await until(lambda: list(outputs.glob("*/checkpoint.npz")), 60)
    async with running.cluster() as cluster:
        uid = (await cluster.get(PODS, "digits-worker-0", "default"))["metadata"]["uid"]
    os.kill(process_of(uid), signal.SIGKILL)
    ended = await running.until(DL_JOBS, "digits", _registered, 120)
    status = ended["status"]
    assert is_true("Succeeded")(ended)
    assert status["restarts"] == 1
    first = status["failures"][0]
    assert (first["pod"], first["exitCode"]) == ("digits-worker-0", 137)
    assert status["results"]["accuracy"] > 0.95
    assert status["outputs"]["digests"].keys() == {"code", "data", "output", "spec"}
    (model,) = await listed(running, MODELS, lambda model: model["spec"]["name"] == "digits-averaged", bool)
    made = await running.until(MODELS, model["metadata"]["name"], is_true("Ready"))
    kept = running.state.storage / made["spec"]["storage"]["output"]
    manifest = json.loads((kept / ".steelyard" / "manifest.json").read_text())
    assert {file["path"] for file in manifest["files"]} == {"model.onnx", "lineage.json"}
    assert manifest["source"]["job"] == "default/digits"


def _registered(job: Json) -> bool:
    return ((job.get("status") or {}).get("outputs") or {}).get("state") == "Registered"


async def until(holds: Any, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - processes make it so
            await asyncio.sleep(0.05)


def process_of(uid: str) -> int:
    """The program of the container of the Pod with this uid: its youngest process."""
    matches = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes()
            environment = Path(f"/proc/{number}/environ").read_bytes()
        except OSError:
            continue
        if b"train.py" in command and uid.encode() in environment:
            matches.append(int(number))
    assert matches, f"no process of Pod {uid}"
    return max(matches)


# ---- E, with the real thing


STORY = """
echo "$POD $ATTEMPT $UID_OF_POD" >> /started/pods
if [ "$ATTEMPT" = 0 ]; then
  if [ "$RANK" = 1 ]; then sh -c 'kill -9 $PPID'; fi
  sleep 60
fi
"""


def make_story(name: str, folder: Path) -> Json:
    """Make a story that begins once the worker is killed; then both end well. Each Pod that starts writes
    down its name.
    """
    fields = {
        "POD": "metadata.name",
        "UID_OF_POD": "metadata.uid",
        "ATTEMPT": "metadata.labels['steelyard/attempt']",
    }
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    mounts = [{"name": "started", "mountPath": "/started"}]
    volumes = [{"name": "started", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}]
    return make_job(
        name, ["sh", "-c", STORY], container={"env": env, "volumeMounts": mounts}, volumes=volumes
    )


async def play(machine: Machine, name: str, folder: Path, *, call: int = 0) -> bool:
    """Play the story to its end, with the operator killed after one of its calls; whether it needed that many.

    Changes that come together take fewer calls: then the job has ended before the operator would have died.
    """
    await machine.create(PYTORCH_JOBS, make_story(name, folder))
    killed = False
    if call:
        with operator(machine, call) as dying:
            succeeded = is_true("Succeeded")
            await machine.until(
                PYTORCH_JOBS, name, lambda job: dying.poll() is not None or succeeded(job), 120
            )
            killed = dying.poll() == -signal.SIGKILL
    with operator(machine, 0):
        ended = await machine.until(PYTORCH_JOBS, name, is_true("Succeeded"), 60)
    assert ended["status"]["restarts"] == 1
    assert len(ended["status"]["failures"]) == 1
    started = Counter(tuple(line.split()[:2]) for line in (folder / "pods").read_text().splitlines())
    roles = ("master-0", "worker-0")
    wanted = {(f"{name}-{role}", attempt): 1 for role in roles for attempt in ("0", "1")}
    # Who was still to start when the worker died, or when the master had ended, is not missed; none started twice.
    assert started.items() <= wanted.items(), started
    assert (f"{name}-master-0", "1") in started
    return killed


async def run_kills(machine: Machine, tmp_path: Path, share: int | None) -> None:
    seed = int(os.environ.get("STEELYARD_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    machine.up("platform")  # makes the state; the operator that it starts is stopped for ours
    machine.down()
    machine.state.kubeconfig.unlink()
    arguments = ("steelyard.cli.main", "service", "kubernetes", "--state-dir", str(machine.state.path))
    with process(*arguments, log=machine.state.path / "kubernetes.log"):
        await until(machine.state.kubeconfig.exists, 60)
        await play(machine, "undisturbed", tmp_path / "undisturbed")
        total = int((machine.state.path / "calls").read_text())
        calls = list(range(1, total - 3))  # the next one may need a few less
        chosen = calls if share is None else sorted(random.Random(seed).sample(calls, share))
        print(f"\nSTEELYARD_KILL_SEED={seed}: {total} calls; killed after {chosen}")
        killed = [
            await play(machine, f"killed-{call}", tmp_path / f"killed-{call}", call=call) for call in chosen
        ]
        assert any(killed), "no operator lived long enough to be killed"


async def test_E_the_operator_killed_after_some_calls_doubles_no_pod(
    machine: Machine, tmp_path: Path
) -> None:
    await run_kills(machine, tmp_path, 2)


@pytest.mark.soak
async def test_E_the_operator_killed_after_every_call_doubles_no_pod(
    machine: Machine, tmp_path: Path
) -> None:
    await run_kills(machine, tmp_path, None)
