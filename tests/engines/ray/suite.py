"""Real Ray clusters on the embedded Kubernetes, by codeflare-sdk unmodified: `python -m tests.engines.ray.suite`.

The client's environment has a Ray; it stands for the images that the client names. `--encrypted` runs the session on a
cluster with certificates.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard.clusters import Client
from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir
from tests.engines.build import Missing
from tests.engines.control_plane import free_ports
from tests.engines.locked import environment
from tests.engines.ray import names

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SECONDS = 1800
Session = Callable[..., int]


def run() -> int:
    return names.run() | run_session("codeflare") | run_session("codeflare-newest")


def run_session(client: str) -> int:
    """Run the sessions of one release of the client, which `client`.txt locks."""
    with _up(UpOptions(without=("platform", "operator")), client) as (_, session):
        return session("tests.engines.ray.session") or session("tests.engines.ray.published")


def run_encrypted() -> int:
    """Run the session of clients on a cluster whose traffic is encrypted, and Steelyard's own client between."""
    with tempfile.TemporaryDirectory(prefix="steelyard-ray-") as folder:
        (port,) = free_ports(1)
        settings, own = Path(folder) / "steelyard.toml", Path(folder) / "own"
        fields = ["certificates = true", "client_authorities = true", "admission = true"]
        settings.write_text("\n".join(["[operator.ray]", *fields, f'listen = "127.0.0.1:{port}"\n']))
        os.environ["CODEFLARE_TLS_DIR"] = str(Path(folder) / "codeflare")
        with _up(UpOptions(without=("platform",), settings=settings)) as (state, session):
            if status := session("tests.engines.ray.encrypted"):
                return status
            with Client(kubeconfig=state.kubeconfig, namespace="default") as client:
                files = client.ray.clusters.certificate("closed", folder=own).folder
            return session("tests.engines.ray.encrypted", str(files))


@contextmanager
def _up(asked: UpOptions, client: str = "codeflare") -> Iterator[tuple[StateDir, Session]]:
    """Yield a machine that is up, and a function that runs a module in the client's environment on it."""
    python = environment(client, HERE / f"{client}.txt")
    with tempfile.TemporaryDirectory(prefix="steelyard-ray-") as folder:
        state = StateDir(Path(folder) / "state")
        start_detached(state.path, asked)

        def session(module: str, *arguments: str) -> int:
            command = [str(python), "-W", "ignore", "-m", module, str(state.kubeconfig), *arguments]
            settings = {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(state.kubeconfig)}
            return subprocess.run(
                command, cwd=ROOT, env=os.environ | settings, timeout=SECONDS, check=False
            ).returncode

        try:
            with state.images.open("a") as images:
                images.write(f'\n["quay.io/modh/ray"]\npython = "{python}"\n')
            yield state, session
        finally:
            stop(state.path)


def main() -> int:
    try:
        return run_encrypted() if "--encrypted" in sys.argv else run()
    except Missing as missing:
        sys.exit(f"{missing}: the suite of Ray cannot run")


if __name__ == "__main__":
    sys.exit(main())
