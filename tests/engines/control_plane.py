"""Starts a real control plane (etcd, API server, controller manager) on free loopback ports, and ends it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from steelyard.local.machine import lasting_port
from tests.engines import pki
from tests.engines.services import guard

OURS = (
    *("job-controller", "cronjob-controller", "ttl-after-finished-controller"),
    *("deployment-controller", "replicaset-controller", "statefulset-controller"),
    *("endpoints-controller", "endpointslice-controller", "disruption-controller"),
    "garbage-collector-controller",
)
"""Controllers that Steelyard has, too, by the names that the controller manager gives them."""


@contextmanager
def control_plane(
    binaries: Path,
    folder: Path,
    without: Iterable[str] = (),
    *,
    durable: bool = False,
    flags: Iterable[str] = (),
) -> Iterator[Path]:
    """Yields the administrator's kubeconfig once the API answers and a default ServiceAccount is there.

    The controllers `without` do not run. `durable`: etcd waits for the disk before it confirms a write. `flags`:
    further ones of the API server.
    """
    pki.make(folder / "pki")
    ports = free_ports(4)
    kubeconfig = _kubeconfig(folder, ports[2])
    kubectl = [str(binaries / "kubectl"), "--kubeconfig", str(kubeconfig)]
    with ExitStack() as stack:
        stack.enter_context(_running(_etcd(binaries, folder, ports, durable=durable), folder / "etcd.log"))
        api_server = [*_api_server(binaries, folder, ports), *flags]
        stack.enter_context(_running(api_server, folder / "apiserver.log"))
        _wait([*kubectl, "get", "--raw", "/readyz"], folder / "apiserver.log")
        # Only now: the controller manager ends when it is started before /readyz.
        stack.enter_context(
            _running(_controllers(binaries, folder, kubeconfig, without), folder / "controllers.log")
        )
        _wait([*kubectl, "-n", "default", "get", "serviceaccount", "default"], folder / "controllers.log")
        yield kubeconfig


def free_ports(count: int) -> list[int]:
    """Return ports for servers that this process starts, and starts again: nobody else gets one before it ends.

    The kernel takes ports above them for connections, at any moment between this and a server's start. Other suites
    that ask at the same time are kept away by a lock of each port.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = lasting_port()
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(
                    f"\0steelyard-test-port-{port}"
                )  # a name without a file, which ends with the process
            except OSError:
                continue
            lock.detach()
        ports.append(port)
    return ports


def _etcd(binaries: Path, folder: Path, ports: list[int], *, durable: bool) -> list[str]:
    client, peer = (f"http://127.0.0.1:{port}" for port in ports[:2])
    return [
        str(binaries / "etcd"),
        *("--name=e", f"--data-dir={folder / 'etcd'}", "--log-level=warn"),
        *(() if durable else ("--unsafe-no-fsync",)),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=e={peer}",
        ),
    ]


def _api_server(binaries: Path, folder: Path, ports: list[int]) -> list[str]:
    keys = folder / "pki"
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{ports[0]}",
        *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={ports[2]}"),
        *("--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16"),
        *("--authorization-mode=Node,RBAC", f"--client-ca-file={keys / 'ca.crt'}"),
        *(f"--tls-cert-file={keys / 'apiserver.crt'}", f"--tls-private-key-file={keys / 'apiserver.key'}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
    ]


def _controllers(binaries: Path, folder: Path, kubeconfig: Path, without: Iterable[str]) -> list[str]:
    keys = folder / "pki"
    return [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--controllers=" + ",".join(["*", *(f"-{name}" for name in without)]),
        *("--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false"),
        *("--kube-api-qps=500", "--kube-api-burst=1000", "--use-service-account-credentials=true"),
        *(f"--service-account-private-key-file={keys / 'sa.key'}", f"--root-ca-file={keys / 'ca.crt'}"),
    ]


def _kubeconfig(folder: Path, port: int) -> Path:
    keys, path = folder / "pki", folder / "kubeconfig"
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(keys / "ca.crt")}
    user = {"client-certificate": str(keys / "admin.crt"), "client-key": str(keys / "admin.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "real", "user": user}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        guarded = subprocess.Popen(
            [sys.executable, guard.__file__, str(log.parent), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,  # a SIGKILL to the run's whole group leaves the guard, which then cleans up
        )
    try:
        yield
    finally:
        guarded.communicate(guard.KEEP)  # kills the process: a throw-away cluster


def _wait(command: list[str], log: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if time.monotonic() > end:
            raise TimeoutError(f"{' '.join(command)}\n{log.read_text()[-2000:]}")
        time.sleep(0.2)
