"""Process 1 of the cluster's namespaces: it starts the parts and lives until its standard input ends.

With it end, by the kernel, all processes (containers and their shims, too), mounts, addresses and virtual networks of
the cluster, whoever killed it. It also carries connections from listening sockets of the machine, which it inherited,
to the API server and to ports that an addition names: nothing else leads in, and nothing leads out.
"""

import asyncio
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from steelyard_common.types import Json
from tests.engines.node.configs import (
    API_PORT,
    CONTAINERD,
    NODE_ADDRESS,
    NODE_NAME,
    SERVICES,
    Addition,
    Layout,
    commands,
    dns_objects,
    write,
)

SECONDS = 180.0


class Parts:
    """The processes of the cluster, by the ids of the namespace."""

    def __init__(self, layout: Layout, addition: Addition) -> None:
        self._layout = layout
        own = {name: [*words, *addition.flags.get(name, ())] for name, words in commands(layout).items()}
        self._commands = own | {name: list(words) for name, words in addition.commands.items()}
        self.names: dict[int, str] = {}

    def start(self, *names: str) -> None:
        for name in names:
            with (self._layout.logs / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(
                    self._commands[name],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            process.returncode = 0  # reaped by number: its own wait would take the status from others
            self.names[process.pid] = name

    def until(self, probe: Callable[[], bool], what: str) -> None:
        """Return once it is so. Raises RuntimeError where a part ends before."""
        end = time.monotonic() + SECONDS
        while not probe():
            for pid, name in self.names.items():
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    raise RuntimeError(f"{name} has ended")
            if time.monotonic() > end:
                raise TimeoutError(f"{what} is not ready after {SECONDS:.0f} s")
            time.sleep(0.05)


def mounts(layout: Layout) -> None:
    """Own places for what the parts keep at fixed paths; volumes reach containers by shared mounts."""
    _do("mount --make-rshared /")
    for path in ("/var/lib", "/var/log"):
        own = layout.folder / path.strip("/").replace("/", "-")
        own.mkdir()
        _do(f"mount --bind {own} {path}")
    _do("mount -t tmpfs tmpfs /run")


def network() -> None:
    """Addresses of the node, and no route that leads out."""
    _do("ip link set lo up")
    _do("ip link add node0 type veth peer name node1")
    _do("ip link set node0 up")
    _do("ip link set node1 up")
    _do(f"ip address add {NODE_ADDRESS}/30 dev node0")
    # Without a route a connection to a Service fails before kube-proxy's rules see it.
    _do(f"ip route add {SERVICES} dev node0")
    settings = {
        "net/ipv4/ip_forward": "1",
        "net/ipv4/conf/all/rp_filter": "0",
        "net/bridge/bridge-nf-call-iptables": "1",
    }
    for name, value in settings.items():
        with suppress(FileNotFoundError):  # the last one, where bridges never ask the filter
            Path("/proc/sys", name).write_text(value)


def _do(command: str) -> None:
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


class Api:
    """Requests of the administrator while the cluster starts."""

    def __init__(self, layout: Layout) -> None:
        self._tls = ssl.create_default_context(cafile=str(layout.keys / "ca.crt"))
        self._tls.load_cert_chain(f"{layout.keys / 'admin'}.crt", f"{layout.keys / 'admin'}.key")

    def request(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        """Return the status of the answer and its content: 0 and nothing where no answer comes."""
        connection = http.client.HTTPSConnection("127.0.0.1", API_PORT, context=self._tls, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def answers(self, path: str) -> bool:
        return self.request("GET", path)[0] == 200

    def makes(self, path: str, body: Json) -> bool:
        """Create an object, and tell whether it is there, perhaps by an earlier call."""
        return self.request("POST", path, body)[0] in (201, 409)

    def node_ready(self) -> bool:
        status, body = self.request("GET", f"/api/v1/nodes/{NODE_NAME}")
        conditions = json.loads(body)["status"].get("conditions", []) if status == 200 else []
        return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

    def definitions_established(self) -> bool:
        status, body = self.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        if status != 200:
            return False
        states = [
            {row["type"]: row["status"] for row in item.get("status", {}).get("conditions") or ()}
            for item in json.loads(body)["items"]
        ]
        return all(state.get("Established") == "True" for state in states)


def dns_ready() -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", 8181, timeout=60)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def containerd_ready() -> bool:
    command = ["ctr", "-a", CONTAINERD, "version"]
    return (
        Path(CONTAINERD).exists() and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def start(layout: Layout) -> Parts:
    """Start all parts; back once the node runs Pods."""
    layout.logs.mkdir()
    write(layout)
    mounts(layout)
    network()
    addition = Addition.read(layout.folder)
    parts, api = Parts(layout, addition), Api(layout)
    parts.start("etcd", "containerd", "apiserver")
    parts.until(containerd_ready, "containerd")
    for image in (*sorted(layout.images.glob("*.tar")), *addition.images):
        _do(f"ctr -a {CONTAINERD} -n k8s.io images import {image}")
    # The controllers and the kubelet end, or wait long, where they are started before the API answers.
    parts.until(lambda: api.answers("/readyz"), "the API server")
    parts.start("controllers", "scheduler", "kubelet", "proxy", "coredns")
    for path, body in dns_objects().items():
        # A server that says that it is ready may still be making the namespaces.
        parts.until(partial(api.makes, path, body), f"an object at {path}")
    parts.until(lambda: api.answers("/api/v1/namespaces/default/serviceaccounts/default"), "the controllers")
    parts.until(api.node_ready, "the node")
    parts.until(dns_ready, "CoreDNS")
    if addition.objects:
        made = layout.folder / "objects.json"
        made.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": addition.objects}))
        kubectl = f"{layout.binaries / 'kubectl'} --kubeconfig {layout.kubeconfig('admin')}"
        _do(f"{kubectl} create --validate=false -f {made}")
        parts.until(api.definitions_established, "the definitions")
    parts.start(*addition.commands)
    return parts


async def serve(listeners: Mapping[int, socket.socket], parts: Parts) -> str:
    """Carry connections until standard input ends, or a part does: then its name."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()

    def end(name: str) -> None:
        if not ended.done():
            ended.set_result(name)

    def reap() -> None:
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                if pid in parts.names:
                    end(parts.names[pid])

    loop.add_signal_handler(signal.SIGCHLD, reap)
    reap()  # what ended before
    loop.add_reader(sys.stdin.fileno(), end, "")
    servers = [
        await asyncio.start_server(partial(_carry, port), sock=listener)
        for port, listener in listeners.items()
    ]
    print("ready", flush=True)
    name = await ended
    for server in servers:
        server.close()
    return name


async def _carry(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def main(arguments: list[str]) -> int:
    layout = Layout(*map(Path, arguments[1:]))
    parts = start(layout)
    pairs = [word.split(":") for word in arguments[0].split(",")]
    listeners = {int(port): socket.socket(fileno=int(file)) for file, port in pairs}
    name = asyncio.run(serve(listeners, parts))
    if name:
        print(f"{name} has ended", file=sys.stderr, flush=True)
    return 1 if name else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
