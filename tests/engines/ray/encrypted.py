"""A session of codeflare-sdk, unmodified, on a Ray cluster whose traffic is encrypted, beside Steelyard's own client.

It runs in the client's own environment: `python -m tests.engines.ray.encrypted KUBECONFIG OWN`. OWN is the folder with
the files of `client.ray.clusters.certificate`, which the suite has got. Each step is printed.
"""

import os
import subprocess
import sys
from pathlib import Path

import codeflare_sdk as sdk

from kubernetes import client, config, stream
from tests.engines.ray.session import NAMESPACE, SECONDS, SIZES, check

NAME = "closed"
EARLY = "RuntimeError: Starting Ray client server failed."
TRIES = 3
PROGRAM = """
import sys
import ray
ray.init(sys.argv[1])
here = ray.remote(lambda: ray.util.get_node_ip_address())
print(sum(node["Alive"] for node in ray.nodes()), ray.get(here.remote()))
"""


def connect(address: str, folder: Path | None) -> str:
    """Return what a program prints that connects with the files of a folder, or how it fails without any."""
    names = {"SERVER_CERT": "tls.crt", "SERVER_KEY": "tls.key", "CA_CERT": "ca.crt"}
    given = {f"RAY_TLS_{field}": str(folder / file) for field, file in names.items()} if folder else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= given | ({"RAY_USE_TLS": "1"} if folder else {})
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return ran.stdout.split()[0] if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1]


def begin() -> None:
    """Make a cluster; its certificate of a client is there as soon as `apply` returns."""
    made = sdk.Cluster(sdk.ClusterConfiguration(name=NAME, namespace=NAMESPACE, num_workers=1, **SIZES))
    made.apply(timeout=60)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(made.status(print_to_console=False)[0].name, "READY")


def use(own: Path) -> None:
    core = client.CoreV1Api()
    head = f"ray.io/cluster={NAME},ray.io/node-type=head"
    (pod,) = core.list_namespaced_pod(NAMESPACE, label_selector=head).items
    address = f"ray://{pod.status.pod_ip}:10001"
    theirs = Path(os.environ["CODEFLARE_TLS_DIR"]) / f"{NAME}-{NAMESPACE}"
    for folder in (theirs, own):
        answers = (connect(address, folder) for _ in range(TRIES))
        # Ray's agent of environments may still start when its health check succeeds already, and Ray's server of
        # clients gives it some seconds alone.
        check(
            next((answer for answer in answers if not is_early(core, pod.metadata.name, answer)), EARLY), "2"
        )
    check(connect(address, None), "ConnectionError: ray client connection timeout")


def is_early(core: client.CoreV1Api, pod: str, answer: str) -> bool:
    """Tell whether Ray's server for a client did not start, and print what it wrote."""
    early = answer.startswith(EARLY)
    if early:
        print(answer, logs_of_client_servers(core, pod), sep="\n", flush=True)
    return early


def logs_of_client_servers(core: client.CoreV1Api, pod: str) -> str:
    """Return what the head's servers of clients have written: Ray's error names the file alone."""
    command = ["sh", "-c", "tail -n 40 /tmp/ray/session_latest/logs/ray_client_server*"]
    call = core.connect_get_namespaced_pod_exec
    return str(stream.stream(call, pod, NAMESPACE, command=command, stdout=True, stderr=True))


def main() -> None:
    config.load_kube_config(sys.argv[1])
    sdk.set_api_client(client.ApiClient())
    if len(sys.argv) > 2:
        use(Path(sys.argv[2]))
    else:
        begin()


if __name__ == "__main__":
    main()
