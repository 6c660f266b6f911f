"""Names inside a namespace: short ones, one's own, early ones; and two namespaces that do not meet."""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.local.machine import lasting_port
from steelyard_common.types import Json
from steelyard_kube.resource import PODS, SERVICES
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import Machine, make_config, make_container, make_pod, phase
from steelyard_local_kubernetes.names.run import run_names
from steelyard_local_kubernetes.names.shown import PublishedNames
from tests.kubelet.test_binds import make_training

pytestmark = pytest.mark.mounts  # a container sees the names in a file of its own
LOOK = """
import os, socket, sys, time
def address(name):
    for _ in range(400):
        try: return socket.gethostbyname(name)
        except OSError: time.sleep(0.01)
print(*(f"{name}={address(name)}" for name in (socket.gethostname(), *sys.argv[1:])), flush=True)
while not os.path.exists("/shared/end"): time.sleep(0.02)
"""


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """Run controllers and names along with the kubelet."""
    shown = PublishedNames()
    made = Machine(make_config(tmp_path / "state", interval=0.05), shown)
    stop, caches = asyncio.Event(), Caches(made.cluster)
    made.start()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(caches.run(stop))
        parts.create_task(run_names(caches, made.config.hosts, stop=stop, shown=shown))
        parts.create_task(run_controllers(made.cluster, caches, stop=stop))
        yield made
        stop.set()
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)


def make_replica(job: str, index: int, *names: str, namespace: str = "default") -> tuple[Json, Json]:
    """A replica as a training job makes it, with its Service; it says what the names mean to it."""
    name = f"{job}-worker-{index}"
    pod = make_training(LOOK, *names, name=name, job=job)
    pod["metadata"]["namespace"] = namespace
    pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] = str(index)
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key != "app"}
    spec = {
        "clusterIP": "None",
        "selector": labels,
        "publishNotReadyAddresses": True,
        "ports": [{"port": 2222}],
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}}
    return pod, {**service, "spec": spec}


async def said(machine: Machine, name: str, namespace: str) -> tuple[Json, dict[str, str]]:
    """A Pod, and what it found names to mean, once it has looked."""
    async with asyncio.timeout(60):
        while True:
            pod = await machine.cluster.get(PODS, name, namespace)
            log = machine.folder(pod).base("main", 0).with_suffix(".log")
            if log.exists() and (lines := machine.log(pod)):
                return pod, dict(word.split("=") for word in lines[0].split())
            await asyncio.sleep(0.01)


async def test_replicas_know_each_other_and_two_namespaces_do_not_meet(machine: Machine) -> None:
    for namespace in ("default", "other"):
        for index in range(2):
            names = ("job-worker-0", "job-worker-1", f"job-worker-0.{namespace}.svc")
            pod, service = make_replica("job", index, *names, namespace=namespace)
            await machine.cluster.create(SERVICES, service)
            await machine.cluster.create(PODS, pod)
    for namespace in ("default", "other"):
        answers = [await said(machine, f"job-worker-{index}", namespace) for index in range(2)]
        ips = {f"job-worker-{index}": pod["status"]["podIP"] for index, (pod, _) in enumerate(answers)}
        expected = ips | {f"job-worker-0.{namespace}.svc": ips["job-worker-0"]}
        assert [names for _, names in answers] == [expected, expected]


async def test_a_name_is_known_before_its_pod_runs(machine: Machine) -> None:
    late, service = make_replica("job", 0)
    late["spec"]["containers"][0]["image"] = "localhost/not-there"
    await machine.cluster.create(SERVICES, service)
    await machine.cluster.create(PODS, late)
    early, _ = make_replica("job", 1, "job-worker-0")
    await machine.cluster.create(PODS, early)
    pod, names = await said(machine, "job-worker-1", "default")
    late = await machine.pod("job-worker-0")
    assert phase(late) == "Pending"
    assert names == {"job-worker-1": pod["status"]["podIP"], "job-worker-0": late["status"]["podIP"]}


async def test_host_names_below_one_service_of_a_job(machine: Machine) -> None:
    pod = make_training(
        LOOK, "first.job", "first.job.default.svc.cluster.local", name="x", hostname="first", subdomain="job"
    )
    spec = {"clusterIP": "None", "selector": {"app": "x"}, "publishNotReadyAddresses": True}
    metadata = {"name": "job", "namespace": "default"}
    await machine.cluster.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    )
    await machine.cluster.create(PODS, pod)
    pod, names = await said(machine, "x", "default")
    ip = pod["status"]["podIP"]
    assert names == dict.fromkeys(("first", "first.job", "first.job.default.svc.cluster.local"), ip)


async def test_a_plain_pod_knows_itself_and_the_machine(machine: Machine) -> None:
    script = (
        "import socket; print(socket.gethostbyname(socket.gethostname()), socket.gethostbyname('localhost'))"
    )
    container = {"name": "main", "image": "localhost/steelyard/steps", "command": ["python", "-c", script]}
    await machine.cluster.create(PODS, make_pod(container, name="plain"))
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded", "plain")
    assert machine.log(pod) == [f"{pod['status']['podIP']} 127.0.0.1"]


async def test_a_program_starts_once_its_own_name_is_known(tmp_path: Path) -> None:
    shown = PublishedNames()
    machine = Machine(make_config(tmp_path / "state"), shown)
    machine.start()
    await machine.cluster.create(PODS, make_pod())
    pod = await machine.until(lambda pod: pod.get("status", {}).get("podIP"))
    await asyncio.sleep(0.2)
    assert phase(await machine.pod()) == "Pending"
    shown.publish(frozenset({pod["status"]["podIP"]}))
    await machine.until(lambda pod: phase(pod) == "Succeeded")
    await machine.stop()


async def test_a_service_leads_from_its_port_to_another_port_of_its_pods(machine: Machine) -> None:
    """Ask for the Service's port, whose number is another than that of the program, by number and by name."""
    serve = (
        "import os, socket; s = socket.create_server((os.environ['POD_IP'], 9090)); print('up', flush=True)\n"
        "while True:\n c, _ = s.accept(); c.sendall(b'hello'); c.close()"
    )
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    image = "localhost/steelyard/steps"
    ports = [{"name": "http", "containerPort": 9090}]
    server = {"name": "main", "image": image, "command": ["python", "-c", serve], "env": env, "ports": ports}
    await machine.cluster.create(PODS, make_pod(server, name="server"))
    spec: Json = {
        "clusterIP": f"{machine.config.network.rsplit('.', 1)[0]}.250",
        "selector": {"app": "server"},
    }
    spec["ports"] = [
        {"name": "number", "port": 8080, "targetPort": 9090},
        {"name": "word", "port": 8081, "targetPort": "http"},
    ]
    metadata = {"name": "web", "namespace": "default"}
    await machine.cluster.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    )
    ask = (
        "import socket, time\n"
        "def ask(port):\n"
        " for _ in range(400):\n"
        "  try:\n"
        "   answer = socket.create_connection(('web', port)).recv(9)\n"
        "   if answer: return answer.decode()\n"
        "  except OSError: pass\n"
        "  time.sleep(0.02)\n"
        "print(ask(8080), ask(8081))"
    )
    client = {"name": "main", "image": image, "command": ["python", "-c", ask]}
    await machine.cluster.create(PODS, make_pod(client, name="client"))
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded", "client")
    assert machine.log(pod) == ["hello hello"]


ECHO = """
import os, socket, sys, threading
address = os.environ["POD_IP"]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, 5353))
def answer():
    while True:
        data, client = datagrams.recvfrom(100)
        datagrams.sendto(b"udp " + data, client)
threading.Thread(target=answer, daemon=True).start()
with socket.create_server((address, 8000)) as server:
    while True:
        with server.accept()[0] as client:
            client.sendall(b"tcp " + client.recv(100))
"""


async def test_ports_of_the_machine_lead_to_a_service_and_another_name_to_its_address(
    machine: Machine,
) -> None:
    number, where = lasting_port(), free_address()
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    pod = make_pod(program(ECHO, env=env), name="echo")
    ports = [
        {"name": "t", "port": 80, "targetPort": 8000, "nodePort": number},
        {"name": "u", "port": 53, "targetPort": 5353, "nodePort": number, "protocol": "UDP"},
    ]
    spec = {"type": "NodePort", "clusterIP": where, "selector": {"app": "echo"}, "ports": ports}
    await machine.cluster.create(SERVICES, make_service("echo", spec))
    alias = {"type": "ExternalName", "externalName": "echo.default.svc.cluster.local"}
    await machine.cluster.create(SERVICES, make_service("alias", alias))
    await machine.cluster.create(PODS, pod)
    reader = await asyncio.to_thread(ask_until_answered, number)
    assert reader == (b"tcp hello", b"udp hello")
    await machine.cluster.create(PODS, make_pod(program(LOOK, "alias", "alias.default.svc"), name="asks"))
    _, names = await said(machine, "asks", "default")
    assert names["alias"] == names["alias.default.svc"] == where


def program(text: str, *arguments: str, **fields: Any) -> Json:
    return {**make_container(**fields), "command": ["python", "-c", text, *arguments]}


def make_service(name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def free_address() -> str:
    """Return a loopback address that no other test uses."""
    return f"127.{random.randint(130, 190)}.{random.randint(1, 250)}.{random.randint(1, 250)}"


def ask_until_answered(port: int) -> tuple[bytes, bytes]:
    """Ask a port of the machine by both protocols, until its Pod is there."""
    deadline = time.monotonic() + 60
    answers = [b"", b""]
    while not all(answers):
        assert time.monotonic() < deadline
        for index, kind in enumerate((socket.SOCK_STREAM, socket.SOCK_DGRAM)):
            with socket.socket(socket.AF_INET, kind) as client, contextlib.suppress(OSError):
                client.settimeout(0.2)
                client.connect(("127.0.0.1", port))
                client.send(b"hello")
                answers[index] = client.recv(100)
    return answers[0], answers[1]


async def test_aliases_of_a_pod_are_its_own(machine: Machine) -> None:
    aliases = [{"ip": "10.1.2.3", "hostnames": ["db", "db.example.com"]}]
    names = ("db", "db.example.com", "localhost")
    await machine.cluster.create(PODS, make_pod(program(LOOK, *names), name="aliased", hostAliases=aliases))
    pod, known = await said(machine, "aliased", "default")
    assert (known["db"], known["db.example.com"], known["localhost"]) == ("10.1.2.3", "10.1.2.3", "127.0.0.1")
    # Its namespace's other Pods know nothing of them.
    shared = machine.config.hosts.with_name("hosts.d") / "default"
    assert "10.1.2.3" not in (shared.read_text() if shared.exists() else "")
    own = shared.with_name(f"default@{pod['metadata']['uid']}")
    assert own.exists()
    await machine.cluster.delete(PODS, "aliased", "default")
    async with asyncio.timeout(60):
        while own.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
