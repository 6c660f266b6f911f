"""The real cluster, from outside: what it needs is built and installed once, then it starts within 20 seconds.

`python -m tests.engines.node.cluster` starts one, prints its kubeconfig and ends it when standard input ends.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.engines import debian, pki
from tests.engines.build import Missing, cache, coredns, node_binaries
from tests.engines.node import guard, images
from tests.engines.node.configs import API_PORT, HOSTS, USERS, Addition, Layout, kubeconfig

NODE = "KUBECONFIG_NODE"
"""Name of the variable that names the kubeconfig of a cluster to use instead; it has the images of `configs`."""
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "iptables": "iptables",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "ip": "iproute2",
    "mount": "mount",
}
"""Debian's package of each program."""
CNI_PACKAGE, CNI = "containernetworking-plugins", (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
ROOT = Path(__file__).parents[3]
CARRIED = "carried.json"
"""File of a cluster's folder with the machine's port for each port of the node that is reached from outside."""


def prepare() -> tuple[Path, Path, Path, Path]:
    """The folders of Kubernetes' programs, of CoreDNS, of the network plugins and of the images.

    Builds, installs and makes the missing parts. Raises Missing.
    """
    require_namespaces()
    install()
    programs, dns = node_binaries(), coredns()
    folder = next(path for path in CNI if (path / "bridge").exists())
    return programs, dns, folder, images.make(cache())


def require_namespaces() -> None:
    """Return where this user may have namespaces, as a node needs them. Raises Missing."""
    if os.geteuid():
        raise Missing("a real node needs root")
    tried = subprocess.run([*guard.UNSHARE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise Missing(f"a real node needs namespaces of its own: {tried.stderr.strip()}")


def install() -> None:
    """Install Debian's packages of the programs that are not there. Raises Missing."""
    wanting = {package for program, package in PACKAGES.items() if not shutil.which(program)}
    wanting |= set() if any((path / "bridge").exists() for path in CNI) else {CNI_PACKAGE}
    debian.install(wanting)


@contextmanager
def node_cluster(addition: Addition | None = None) -> Iterator[Path]:
    """The administrator's kubeconfig of a cluster that runs Pods: the environment's, or one that is started.

    A started one has the `addition` beside its parts. Raises Missing where it cannot be had, RuntimeError with the
    ends of its logs where it does not start.
    """
    if given := os.environ.get(NODE):
        yield Path(given)
        return
    programs, added = prepare(), addition or Addition()
    guard.sweep()
    folder = Path(tempfile.mkdtemp(prefix=guard.PREFIX))
    pki.make(folder / "pki", HOSTS, USERS)
    added.write(folder)
    layout = Layout(folder, *programs)
    with ExitStack() as stack:
        listeners = {
            port: stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for port in (API_PORT, *added.ports)
        }
        carried = {port: listener.getsockname()[1] for port, listener in listeners.items()}
        (folder / CARRIED).write_text(json.dumps(carried))
        address = f"https://127.0.0.1:{carried[API_PORT]}"
        process = _start(layout, listeners)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the cluster does not start:\n{_logs(folder)}")
        path = folder / "kubeconfig"
        path.write_text(json.dumps(kubeconfig(layout, "admin", address)))
        yield path
    finally:
        process.communicate()


def carried_port(kubeconfig: Path, port: int) -> int:
    """Return the port of the machine that leads to a port of the cluster's node."""
    carried: dict[str, int] = json.loads((kubeconfig.parent / CARRIED).read_text())
    return carried[str(port)]


def network_holder(kubeconfig: Path) -> int:
    """Return the id of a process in the cluster's network."""
    return int((kubeconfig.parent / guard.HOLDER).read_text())


def _start(layout: Layout, listeners: Mapping[int, socket.socket]) -> "subprocess.Popen[str]":
    files = [listener.fileno() for listener in listeners.values()]
    carried = ",".join(f"{listener.fileno()}:{port}" for port, listener in listeners.items())
    inside = [sys.executable, "-m", "tests.engines.node.inside", carried]
    inside += map(str, (layout.folder, layout.binaries, layout.coredns, layout.cni, layout.images))
    command = [sys.executable, guard.__file__, str(layout.folder), ",".join(map(str, files)), *inside]
    with (layout.folder / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=files,
            text=True,
            start_new_session=True,  # a SIGKILL to the run's whole group leaves the guard, which then cleans up
        )


def _logs(folder: Path) -> str:
    paths = [folder / "log", *sorted((folder / "logs").glob("*.log"))]
    return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in paths)


def main() -> int:
    try:
        began = time.monotonic()
        with node_cluster() as path:
            print(f"{path} (ready in {time.monotonic() - began:.1f} s)", flush=True)
            sys.stdin.read()
    except Missing as missing:
        sys.exit(f"{missing}: there is no real node")
    return 0


if __name__ == "__main__":
    sys.exit(main())
