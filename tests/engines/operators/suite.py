"""The client's tests on KubeRay, Kueue and AppWrapper: `python -m tests.engines.operators.suite real|embedded`.

The tests are the same ones for both, and so is the Ray that the clusters run. `make test-engines` has both.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard.clusters import AppWrapperConfig, Client, ClusterConfig, ClusterError, FlavorConfig
from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir
from tests.engines.build import Missing
from tests.engines.node.cluster import node_cluster, prepare
from tests.engines.operators import image
from tests.engines.operators.making import IMAGE, KUBECONFIG
from tests.engines.operators.operators import addition

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SECONDS = 120.0
OPERATORS = ("kuberay", "kueue", "appwrapper")
SERVERS = ("real", "embedded")


@contextmanager
def embedded() -> Iterator[Path]:
    """The kubeconfig of an embedded cluster whose image of Ray is codeflare-sdk's environment. Raises Missing."""
    interpreter = image.python()
    with tempfile.TemporaryDirectory(prefix="steelyard-operators-") as folder:
        state = StateDir(Path(folder) / "state")
        start_detached(state.path, UpOptions(without=("platform", "operator")))
        try:
            with state.images.open("a") as images:
                images.write(f'\n["{IMAGE.partition(":")[0]}"]\npython = "{interpreter}"\n')
            yield state.kubeconfig
        finally:
            stop(state.path)


@contextmanager
def real() -> Iterator[Path]:
    """The kubeconfig of a cluster with a node and the operators, once their webhooks answer. Raises Missing."""
    prepare()
    with node_cluster(addition()) as kubeconfig:
        _wait_for_webhooks(kubeconfig)
        yield kubeconfig


def _wait_for_webhooks(kubeconfig: Path) -> None:
    end = time.monotonic() + SECONDS
    wrapper = AppWrapperConfig(name="probe", parts=(ClusterConfig(name="probe"),), queue_policy="off")
    with Client(kubeconfig=kubeconfig) as client:
        while True:
            try:
                client.admin.apply(FlavorConfig(name="probe"))
                client.appwrappers.dry_run(wrapper)
            except ClusterError as error:
                if time.monotonic() > end:
                    logs = [kubeconfig.parent / "logs" / f"{name}.log" for name in OPERATORS]
                    ends = [f"{path.name}: {path.read_text()[-2000:]}" for path in logs]
                    raise TimeoutError("\n".join([str(error), *ends])) from error
                time.sleep(0.2)
            else:
                return client.admin.delete(FlavorConfig(name="probe"))


def run(server: str, options: Sequence[str] = ()) -> int:
    """Run the tests on one of the servers; pytest's exit status. Raises Missing."""
    began = time.monotonic()
    with (real if server == "real" else embedded)() as kubeconfig:
        print(f"{server}: ready in {time.monotonic() - began:.0f} s", flush=True)
        chosen = {KUBECONFIG: str(kubeconfig)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "4", "--dist", "worksteal", "--durations=8"]
        return subprocess.run(
            [*command, *(options or [str(HERE)])], cwd=ROOT, env=os.environ | chosen, check=False
        ).returncode


def main(arguments: list[str]) -> int:
    if arguments[:1] not in ([server] for server in SERVERS):
        sys.exit(f"usage: python -m tests.engines.operators.suite {'|'.join(SERVERS)} [OPTION OF PYTEST ...]")
    try:
        return run(arguments[0], arguments[1:])
    except Missing as missing:
        sys.exit(f"{missing}: the suite of the operators cannot run")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
