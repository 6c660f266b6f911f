"""One session driven through published clients, unmodified, on the embedded Kubernetes and on a real control plane.

`python -m tests.engines.clients.suite` runs all of them. On the real one nothing runs Pods: logs and
`exec` are left out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir
from tests.engines.build import Missing, binaries, go_clients, helm
from tests.engines.control_plane import control_plane
from tests.engines.locked import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PYTHON = ("kubernetes", "kubernetes_asyncio", "kr8s", "lightkube", "kopf")
GO = ("informers", "controller")
SECONDS = 1200
AT_ONCE = 3  # a session mostly waits for the server's controllers


@contextmanager
def servers() -> Iterator[dict[str, tuple[Path, bool]]]:
    """The kubeconfig of each server by its name, and whether Pods run there."""
    with tempfile.TemporaryDirectory(prefix="steelyard-clients-") as folder:
        state = StateDir(Path(folder) / "state")
        start_detached(state.path, UpOptions(without=("platform",)))
        try:
            with control_plane(binaries(), Path(folder)) as real:
                yield {"embedded": (state.kubeconfig, True), "real": (real, False)}
        finally:
            stop(state.path)


def session(program: Path | str, name: str, programs: list[str], kubeconfig: Path, *, pods: bool) -> bool:
    """Run one session in a namespace of its own, and tell whether it passed."""
    place = [*(["--pods"] if pods else []), str(kubeconfig), f"clients-{uuid.uuid4().hex[:8]}"]
    # What the clients leave open at their end is theirs.
    module = ["-W", "ignore", "-m", f"tests.engines.clients.session_{name}", *programs]
    command = [str(program), *([] if name in GO else module), *place]
    settings = {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(kubeconfig)}
    return not subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, timeout=SECONDS, check=False
    ).returncode


def run_all(sessions: list[tuple[Path | str, str, list[str]]]) -> int:
    """Return 0 where every session passes on both servers."""
    with servers() as kubeconfigs, ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            f"{name} {' '.join(programs)} on the {server} server": pool.submit(
                session, program, name, programs, kubeconfig, pods=pods
            )
            for program, name, programs in sessions
            for server, (kubeconfig, pods) in kubeconfigs.items()
        }
        failed = [line for line, passed in running.items() if not passed.result()]
    for line in failed:
        print(f"failed: {line}")
    return 1 if failed else 0


def run_python() -> int:
    python = environment("clients", HERE / "clients.txt")
    return run_all([(python, name, []) for name in PYTHON])


def run_programs() -> int:
    """kubectl (this machine's, the control plane's and a newer one) and helm."""
    built = binaries() / "kubectl"
    own = shutil.which("kubectl")
    kubectls = [str(go_clients() / "kubectl"), str(built), *([own] if own else [])]
    sessions: list[tuple[Path | str, str, list[str]]] = [
        (sys.executable, "kubectl", [kubectl]) for kubectl in kubectls
    ]
    return run_all([*sessions, (sys.executable, "helm", [str(helm()), str(built)])])


def run_go() -> int:
    """client-go's informers, elections and events, and a controller of controller-runtime."""
    programs = go_clients()
    return run_all([(programs / name, name, []) for name in GO])


def main() -> int:
    try:
        return run_python() | run_programs() | run_go()
    except Missing as missing:
        sys.exit(f"{missing}: the clients' suite cannot run")


if __name__ == "__main__":
    sys.exit(main())
