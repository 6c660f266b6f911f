"""The platform that the chart installs on real engines, in its shapes small and large: its story, and its parts killed.

Kafka, PostgreSQL, S3 and MongoDB's protocol are servers in the network of the cluster's node.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from steelyard.client import Client
from steelyard.client.retries import Retries
from tests.engines.chart import processes
from tests.engines.chart.conftest import RESTRICTED, state_of, token
from tests.engines.chart.helm import CHART, NAMESPACE, RELEASE, Cluster, ProgramFailed
from tests.engines.chart.servers import Servers, servers
from tests.engines.chart.suite import AUDIT_LOG, KUBECONFIG
from tests.integration import small as small_workflows

pytestmark = [
    pytest.mark.skipif(KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one"),
    pytest.mark.timeout(1800),
]
PLATFORM, OPERATOR = "platform", "operator"
LEASES = {"steelyard-operator": OPERATOR, "steelyard-orchestrator": PLATFORM, "steelyard-informer": PLATFORM}
"""Part of the shape small whose Pods stand for each lease."""
SECONDS = 600.0
MAKERS = ("jobs", "evaluations", "inferencesessions")
"""Kinds that the platform or the operator makes once for each workflow."""


@pytest.fixture(scope="module")
def on_servers() -> Iterator[tuple[Cluster, Servers]]:
    """A cluster with a namespace for the release, and the servers and Secrets that its values name."""
    cluster = Cluster(Path(os.environ[KUBECONFIG]))
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, RESTRICTED)
    with servers(cluster) as made:
        made.make_secrets(cluster)
        yield cluster, made


def install(cluster: Cluster, made: Servers, shape: str) -> None:
    """Install a shape, tell the story by `helm test`, and print how long that took and what the Pods use."""
    began = time.time()
    try:
        cluster.helm("install", RELEASE, CHART, "--wait", "--timeout", "10m", values=made.values(shape))
        ready = time.time() - began
        print_use(cluster, f"{shape}, ready")
        story = time.time()
        said = cluster.helm("test", RELEASE, "--logs", "--timeout", "10m", seconds=700)
    except ProgramFailed as error:
        raise AssertionError(f"{error}\n{state_of(cluster)}") from None
    assert "Two models evaluated, reported on and audited" in said
    first = min(end for end in map(completed, cluster.get("evaluations", "-A")["items"]) if end > began)
    print(
        f"{shape}: ready {ready:.0f} s after `helm install`, first evaluation Complete {first - began:.0f} s"
    )
    print(f"{shape}: `helm test` took {time.time() - story:.0f} s")
    print_use(cluster, f"{shape}, after the story")


def completed(evaluation: dict[str, object]) -> float:
    """Return when an Evaluation became Complete, in seconds since 1970; 0 where it has not."""
    status = evaluation["status"]
    assert isinstance(status, dict)
    for condition in status["conditions"]:
        if condition["type"] == "Complete" and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
    return 0.0


def print_use(cluster: Cluster, moment: str) -> None:
    print(f"{moment}: MiB resident, MiB of the limit, seconds of processor time")
    for pod in processes.pods(cluster):
        used = processes.use(cluster, pod)
        numbers = f"{used.resident:.0f} {used.counted:.0f} {used.seconds:.1f}"
        print(f"  {pod['metadata']['labels']['steelyard/part']}: {numbers}")


def client_of(cluster: Cluster, made: Servers) -> Client:
    """Open a client that reaches the API from outside, and is patient with one that is started again."""
    return Client(f"{made.api}/v0", token(cluster), retries=Retries(tries=60, unmet=60))


def tell_from_outside(cluster: Cluster, made: Servers, folder: Path) -> None:
    """Tell the story from this machine, as the notes of the installation say."""
    options = ["--endpoint", f"{made.api}/v0", "--token", token(cluster), "--output", str(folder)]
    command = [sys.executable, "-m", "steelyard.cli.main", "demo", *options, "--display", "plain"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{state_of(cluster)}"
    assert "Two models evaluated, reported on and audited" in done.stdout


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait until it holds; return how many seconds that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < SECONDS, what
        time.sleep(0.2)
    return time.monotonic() - began


def created(cluster: Cluster) -> Counter[tuple[str, str, str]]:
    """Return how often each object of a workflow was made, by kind, namespace and name, as the audit log has it."""
    made: Counter[tuple[str, str, str]] = Counter()
    for line in (cluster.kubeconfig.parent / AUDIT_LOG).read_text().splitlines():
        entry = json.loads(line)
        where = entry.get("objectRef", {})
        if (
            entry["verb"] == "create"
            and where.get("resource") in MAKERS
            and not where.get("subresource")
            and entry.get("responseStatus", {}).get("code") == 201
        ):
            made[where["resource"], where["namespace"], where.get("name", "")] += 1
    return made


def test_small_tells_its_story(on_servers: tuple[Cluster, Servers], tmp_path: Path) -> None:
    cluster, made = on_servers
    install(cluster, made, "small")
    tell_from_outside(cluster, made, tmp_path)
    with client_of(cluster, made) as client:
        assert [audit.status for audit in client.audits.query()] == ["Complete"] * 4


def test_small_loses_nothing_while_each_part_and_each_engine_is_killed(
    on_servers: tuple[Cluster, Servers], tmp_path: Path
) -> None:
    """One evaluation runs while a part is killed, and one is requested right afterwards; both end."""
    cluster, made = on_servers
    with client_of(cluster, made) as client:
        first = small_workflows.make(client, tmp_path)
        client.evaluations.wait(first.evaluation, timeout=SECONDS)

        def evaluate() -> str:
            session = {"inferenceService": first.service, "useSpotPods": False}
            return client.evaluations.create(
                account=small_workflows.ACCOUNT, dataset=first.dataset, inferenceSession=session
            ).id

        acknowledged = [first.evaluation]
        for victim in (PLATFORM, OPERATOR, *made.services):
            running = evaluate()
            until(
                lambda running=running: client.evaluations.get(running).status == "Admitted",  # type: ignore[misc]
                f"{running} is not admitted",
            )
            began = time.monotonic()
            if victim in made.services:
                made.restart(victim)
            else:
                for pod in processes.pods(cluster, "-l", f"steelyard/part={victim}"):
                    processes.kill(cluster, pod)
            acknowledged += [running, evaluate()]
            for id in acknowledged[-2:]:
                try:
                    client.evaluations.wait(id, timeout=SECONDS)
                except Exception as error:
                    raise AssertionError(f"{victim} killed: {error}\n{state_of(cluster)}") from error
            print(f"killed {victim}: both evaluations Complete {time.monotonic() - began:.0f} s later")
        statuses = {entity.id: entity.status for entity in client.evaluations.query(limit=1000)}
    assert {id: statuses.get(id) for id in acknowledged} == dict.fromkeys(acknowledged, "Complete")
    assert set(statuses.values()) == {"Complete"}
    objects = created(cluster)
    assert len(objects) > len(acknowledged)
    assert [which for which, times in objects.items() if times > 1] == []


@pytest.mark.parametrize("lease", LEASES)
def test_another_replica_works_when_the_leader_is_killed(
    on_servers: tuple[Cluster, Servers], lease: str
) -> None:
    cluster, made = on_servers

    def holder() -> str:
        return str(cluster.get("lease", lease)["spec"].get("holderIdentity", ""))

    until(lambda: bool(holder()), f"nobody leads {lease}")
    before = holder()
    members = list(processes.pods(cluster, "-l", f"steelyard/part={LEASES[lease]}"))
    [leader] = [pod for pod in members if pod["metadata"]["name"] in before]
    [other] = [pod for pod in members if pod is not leader]
    processes.kill(cluster, leader)
    seconds = until(lambda: other["metadata"]["name"] in holder(), f"{lease}: {holder()} leads")
    print(f"{lease}: the other replica leads {seconds:.1f} s after the leader was killed")
    with client_of(cluster, made) as client:
        last = next(iter(client.evaluations.query(account=small_workflows.ACCOUNT, limit=1)))
        again = client.evaluations.create(
            account=small_workflows.ACCOUNT,
            dataset=last.dataset,
            inferenceSession={
                "inferenceService": last.inferenceSession.inferenceService.id,
                "useSpotPods": False,
            },
        )
        client.evaluations.wait(again.id, timeout=SECONDS)


def test_large_tells_its_story_on_the_data_of_small(
    on_servers: tuple[Cluster, Servers], tmp_path: Path
) -> None:
    cluster, made = on_servers
    cluster.helm("uninstall", RELEASE, "--wait", "--timeout", "5m")
    install(cluster, made, "large")
    tell_from_outside(cluster, made, tmp_path)
    with client_of(cluster, made) as client:
        assert [audit.status for audit in client.audits.query()] == ["Complete"] * 8
