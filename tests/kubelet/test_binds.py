"""Training Pods: frameworks that listen on all addresses stay at their Pod's own, and do not meet (rule 35)."""

import asyncio
import os
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
)

LISTEN = """
import os, socket as s, sys
family, address, port = sys.argv[1:]
with s.socket(getattr(s, family)) as x:
    x.bind((address, int(port)))
    x.listen()
    print(x.getsockname()[0], x.getsockname()[1], flush=True)
    while not os.path.exists("/shared/end"):
        x.settimeout(0.05)
        try:
            there, whence = x.accept()
        except TimeoutError:
            continue
        there.sendall(os.environ["HOSTNAME"].encode())
        there.close()
"""
SHARED: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def make_training(
    script: str, *arguments: str, name: str = "pod", job: str = "job", **fields: object
) -> Json:
    """A training Pod that runs Python; it ends by itself, or once its volume has a file `end`."""
    container = make_container(**SHARED) | {"command": ["python", "-c", script], "args": [*arguments]}
    pod = make_pod(container, name=name, volumes=[{"name": "shared", "emptyDir": {}}], **fields)
    pod["metadata"]["labels"]["training.kubeflow.org/job-name"] = job
    return pod


async def end(machine: Machine, *names: str) -> list[Json]:
    """Let Pods that listen end; the answer is them."""
    ended = []
    for name in names:
        pod = await machine.pod(name)
        (machine.folder(pod).path / "volumes/shared/end").touch()
        ended.append(await machine.until(lambda pod: phase(pod) == "Succeeded", name))
    return ended


async def listening(machine: Machine, name: str) -> tuple[Json, list[str]]:
    """The Pod and where it listens, once it does."""
    pod = await machine.until(is_running, name)
    await machine.until(lambda _: machine.log(pod), name)
    return pod, machine.log(pod)[0].split()


@pytest.mark.parametrize(
    ("family", "address"),
    [("AF_INET", "0.0.0.0"), ("AF_INET", "127.0.0.1"), ("AF_INET6", "::"), ("AF_INET6", "::ffff:0.0.0.0")],
)
async def test_two_jobs_side_by_side_bind_one_port(machine: Machine, family: str, address: str) -> None:
    names = [f"{job}-worker-{index}" for job in ("one", "two") for index in range(2)]
    for name in names:
        pod = make_training(LISTEN, family, address, "23456", name=name, job=name[:3])
        await machine.cluster.create(PODS, pod)
    for name in names:
        pod, (host, port) = await listening(machine, name)
        assert (host.removeprefix("::ffff:"), port) == (pod["status"]["podIP"], "23456")
        reader, writer = await asyncio.open_connection(pod["status"]["podIP"], 23456)
        assert (await reader.read()).decode() == name
        writer.close()
    await asyncio.sleep(0.2)  # the guard has looked
    await end(machine, *names)


OWN_LOOPBACK = """
import socket as s, threading
for calls in (s.AF_INET, "127.0.0.1"), (s.AF_INET, "127.9.9.9"), (s.AF_INET6, "::1"), (s.AF_INET6, "::ffff:127.0.0.1"):
    for timeout in (None, 1.0):
        with s.socket(calls[0]) as nobody:
            nobody.settimeout(timeout)
            assert nobody.connect_ex((calls[1], 23457)) == 111, calls
with s.create_server(("0.0.0.0", 23457)) as server:
    threading.Thread(target=lambda: server.accept()[0].sendall(b"own"), daemon=True).start()
    with s.create_connection(("127.0.0.1", 23457)) as there:
        print(there.recv(9).decode(), there.getsockname()[0], there.getpeername()[0], flush=True)
"""


async def test_a_program_meets_itself_on_its_loopback_address(machine: Machine) -> None:
    pods = [make_training(OWN_LOOPBACK, name=name) for name in ("one", "two")]
    for pod in await asyncio.gather(*(machine.run(pod) for pod in pods)):
        assert machine.log(pod) == [f"own {pod['status']['podIP']} {pod['status']['podIP']}"]


BOTH = """
import errno, os, socket as s
with s.create_server((os.environ["POD_IP"], 23459)) as own, s.create_server(("127.0.0.1", 23459)) as local:
    with s.create_connection(("127.0.0.1", 23459)) as there:
        own.accept()[0].sendall(b"own")
        print(there.recv(9).decode(), flush=True)
with s.create_server(("127.0.0.1", 23459)):
    try:
        s.create_server(("127.0.0.1", 23459))
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


async def test_a_program_may_have_a_port_of_its_address_and_of_127_0_0_1(machine: Machine) -> None:
    pod = make_training(BOTH)
    field = {"fieldRef": {"fieldPath": "status.podIP"}}
    pod["spec"]["containers"][0]["env"] = [{"name": "POD_IP", "valueFrom": field}]
    assert machine.log(await machine.run(pod)) == ["own", "EADDRINUSE"]


async def test_what_the_machine_serves_is_still_there_and_sees_whose_call_it_is(machine: Machine) -> None:
    async def answered(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"the machine, called by {writer.get_extra_info('peername')[0]}".encode())
        writer.close()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    script = (
        "import socket as s, sys; print(s.create_connection(('localhost', sys.argv[1])).recv(99).decode())"
    )
    pod = await machine.run(make_training(script, str(server.sockets[0].getsockname()[1])))
    server.close()
    assert machine.log(pod) == [f"the machine, called by {pod['status']['podIP']}"]


CORNERS = """
import asyncio, os, socket as s, threading
def name(family, kind, address, port, only=False):
    with s.socket(family, kind) as x:
        if only: x.setsockopt(s.IPPROTO_IPV6, s.IPV6_V6ONLY, 1)
        x.bind((address, port))
        return x.getsockname()[:2]
print("datagrams", name(s.AF_INET, s.SOCK_DGRAM, "", 23458)[0])
print("anywhere", name(s.AF_INET, s.SOCK_DGRAM, "", 0)[0])
print("only 6", name(s.AF_INET6, s.SOCK_STREAM, "::", 23458, True)[0])
print("other", name(s.AF_INET, s.SOCK_STREAM, "127.9.8.7", 23458)[0])
with s.socket(s.AF_UNIX) as x: x.bind("own"); print("unix", x.getsockname())
found = []
thread = threading.Thread(target=lambda: found.append(name(s.AF_INET, s.SOCK_STREAM, "", 23458)[0]))
thread.start(); thread.join(); print("thread", *found)
if os.fork() == 0: print("fork", name(s.AF_INET, s.SOCK_STREAM, "", 23458)[0], flush=True); os._exit(0)
os.wait()
for there in ("8.8.8.8", 80), ("10.255.255.255", 1), ("127.9.9.9", 80):
    with s.socket(s.AF_INET, s.SOCK_DGRAM) as x: x.connect(there); print("asked", x.getsockname()[0])
try: name(s.AF_INET, s.SOCK_STREAM, "8.8.8.8", 23458)
except OSError as error: print("refused", error.errno)
async def both():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), None, 23459)
    print("both", *sorted(x.getsockname()[0] for x in server.sockets))
asyncio.run(both())
"""


async def test_what_programs_bind_besides(machine: Machine) -> None:
    pod = await machine.run(make_training(CORNERS))
    ip = pod["status"]["podIP"]
    assert machine.log(pod) == [
        f"datagrams {ip}",
        "anywhere 0.0.0.0",
        "only 6 ::1",
        "other 127.9.8.7",
        "unix own",
        f"thread {ip}",
        f"fork {ip}",
        f"asked {ip}",
        f"asked {ip}",
        "asked 127.0.0.1",
        "refused 99",
        f"both {ip} ::1",
    ]


AGAIN = """
import socket as s, sys, os
x = s.create_server(("", 23460)) if not os.path.exists("/shared/ran") else s.socket()
if os.path.exists("/shared/ran"):
    x.bind(("", 23460)); x.listen(); print("again", x.getsockname()[0]); sys.exit(0)
open("/shared/ran", "w").close()
there = s.create_connection(x.getsockname())
x.accept()[0].close()  # this side waits for late packets now
os._exit(1)
"""


async def test_a_program_that_starts_again_gets_its_port_back(machine: Machine) -> None:
    pod = await machine.run(make_training(AGAIN, restartPolicy="OnFailure"))
    assert machine.log(pod, attempt=1) == [f"again {pod['status']['podIP']}"]


SIGNALS = """
import signal, socket as s
signal.signal(signal.SIGALRM, lambda *_: None)
def bind(x):
    while True:
        try: return x.bind(("", 0))
        except InterruptedError:  # before the shim has read it, a signal ends the call
            if x.getsockname()[1]: return print("half done")
for n in range(1500):
    signal.setitimer(signal.ITIMER_REAL, 0.00001 + n % 30 * 0.00001)  # one at some moment of each
    with s.socket() as x: bind(x)
print("unhurt")
"""


async def test_a_signal_never_leaves_a_bind_half_done(machine: Machine) -> None:
    pod = await machine.run(make_training(SIGNALS))
    assert machine.log(pod) == ["unhurt"]


async def test_what_gets_round_it_is_judged_like_any_other_pod(machine: Machine) -> None:
    script = (
        "import socket as s, time; x = s.socket(); x.listen(); time.sleep(60)"  # bound by nobody: everywhere
    )
    pod = await machine.run(make_training(script))
    assert (phase(pod), pod["status"]["reason"]) == ("Failed", "BoundToAllAddresses")


async def test_where_the_kernel_does_not_help_training_pods_may_bind_all(
    tmp_path: Path, machine: Machine
) -> None:
    await machine.stop()
    machine.config = make_config(tmp_path / "state", interval=0.05, binds="never")
    machine.start()
    await machine.cluster.create(PODS, make_training(LISTEN, "AF_INET", "0.0.0.0", "0"))
    _, (host, _) = await listening(machine, "pod")
    assert host == "0.0.0.0"
    await asyncio.sleep(0.2)
    await end(machine, "pod")


@pytest.mark.mounts
async def test_a_pod_has_its_own_host_name(machine: Machine) -> None:
    script = "import os, socket; print(os.uname().nodename, os.environ['HOSTNAME'])"
    names = ["job-worker-0", "w" * 70 + "-0"]
    pods = [await machine.run(make_training(script, name=name)) for name in names]
    pods.append(await machine.run(make_training(script, name="other", hostname="given")))
    pods.append(await machine.run(make_training(script, name="host", hostNetwork=True)))
    seen = [machine.log(pod)[0].split() for pod in pods]
    here = os.uname().nodename
    expected = ["job-worker-0", "w" * 63, "given", here]
    assert seen == [[name, name] for name in expected]
