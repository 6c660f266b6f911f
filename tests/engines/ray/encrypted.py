"""A session of codeflare-sdk, unmodified, on a Ray cluster that is encrypted and autoscaled, beside Steelyard's client.

It runs in the client's own environment: `python -m tests.engines.ray.encrypted KUBECONFIG OWN`. OWN is the folder with
the files of `client.ray.clusters.certificate`, which the suite has got. Each step is printed.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import codeflare_sdk as sdk

from kubernetes import client, config, stream
from tests.engines.ray.session import NAMESPACE, SECONDS, SIZES, check

NAME = "closed"
TRIES = 8
RETRIED = (
    # Ray's server for the client ended between its fork and its exec, by a fault of gRPC's handlers of forks (Ray's
    # issue 63202); the embedded Kubernetes turns them off. psutil's errors are the same event: Ray asked for the
    # command of a process whose last thread was just ending.
    *("Starting Ray client server failed", "psutil.ZombieProcess", "psutil.NoSuchProcess"),
    # A busy machine: the server does not listen yet, or the channel is not there yet.
    *("Proxy failed to Connect to backend", "ConnectionError: ray client connection timeout"),
)
"""Words of Ray's errors after which a client of Ray's is expected to try again."""
PATIENT = {"RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "180"}
"""Seconds that Ray's head gives the server for a client to listen: 30 by themselves."""
ANSWER = "answer:"
PROGRAM = f"""
import sys
import ray
ray.init(sys.argv[1])
here = ray.remote(lambda: ray.util.get_node_ip_address())
ray.get(here.remote())
print("{ANSWER}", sum(node["Alive"] for node in ray.nodes()))
"""


PROGRAM_THAT_GROWS = f"""
import sys
import time
import ray
ray.init(sys.argv[1])
# More processors than head and worker have: the autoscaler adds the second worker.
held = [ray.remote(num_cpus=1)(lambda: time.sleep({SECONDS})).remote() for _ in range(3)]
until = time.monotonic() + {SECONDS}
while (count := sum(node["Alive"] for node in ray.nodes())) < 3 and time.monotonic() < until:
    time.sleep(2)
print("{ANSWER}", count)
"""


def connect(address: str, folder: Path | None, program: str = PROGRAM) -> tuple[str, str]:
    """Run a program that connects with the files of a folder, or without any: the nodes that it counts, and what else
    it said.
    """
    names = {"SERVER_CERT": "tls.crt", "SERVER_KEY": "tls.key", "CA_CERT": "ca.crt"}
    given = {f"RAY_TLS_{field}": str(folder / file) for field, file in names.items()} if folder else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= given | ({"RAY_USE_TLS": "1"} if folder else {})
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    answers = [
        line.removeprefix(ANSWER).strip() for line in ran.stdout.splitlines() if line.startswith(ANSWER)
    ]
    # Its exit status is not asked for: how Ray's client ends is Ray's own.
    return "".join(answers), f"{ran.stdout}{ran.stderr}"


class Small(sdk.Cluster):  # type: ignore[misc]
    """A cluster whose head has no dashboard: nobody asks it anything here.

    Ray's node ends where its agents do not start within 15 s, as on a busy machine beside ten processes of a dashboard.
    """

    def create_resource(self) -> dict[str, Any]:
        resource: dict[str, Any] = super().create_resource()
        resource["spec"]["headGroupSpec"]["rayStartParams"]["include-dashboard"] = "false"
        return resource


def begin() -> None:
    """Make a cluster; its certificate of a client is there as soon as `apply` returns."""
    made = Small(
        sdk.ClusterConfiguration(
            name=NAME,
            namespace=NAMESPACE,
            enable_autoscaling=True,
            min_workers=1,
            max_workers=2,
            envs=PATIENT,
            **SIZES,
        )
    )
    made.apply(timeout=SECONDS)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(made.status(print_to_console=False)[0].name, "READY")


def use(own: Path) -> None:
    core = client.CoreV1Api()
    head = f"ray.io/cluster={NAME},ray.io/node-type=head"
    (pod,) = core.list_namespaced_pod(NAMESPACE, label_selector=head).items
    address = f"ray://{pod.status.pod_ip}:10001"
    theirs = Path(os.environ["CODEFLARE_TLS_DIR"]) / f"{NAME}-{NAMESPACE}"
    for folder in (theirs, own):
        check(nodes(core, pod.metadata.name, address, folder), "2")
    grown = nodes(core, pod.metadata.name, address, own, PROGRAM_THAT_GROWS)
    check(grown, "3")
    command = ["bash", "-lc", "python -c 'import ray; print(ray.__version__)'; command -v ray >&2"]
    shell = str(
        stream.stream(
            core.connect_get_namespaced_pod_exec,
            pod.metadata.name,
            NAMESPACE,
            command=command,
            container="ray-head",
            stdout=True,
            stderr=False,
        )
    )
    check(shell.strip().splitlines()[-1:], [version("ray")])
    answer, said = connect(address, None)
    check((answer, "ray client connection timeout" in said), ("", True))


def nodes(core: client.CoreV1Api, pod: str, address: str, folder: Path | None, program: str = PROGRAM) -> str:
    """Return the number of nodes that a client counts, with a folder's files; it tries again as Ray's own would."""
    said = ""
    for _ in range(TRIES):
        answer, said = connect(address, folder, program)
        if answer or not is_retried(said):
            break
        print(said, logs_of_client_servers(core, pod), sep="\n", flush=True)
    return answer or said


def is_retried(said: str) -> bool:
    """Return whether Ray's server for a client did not start in time, which says nothing of certificates."""
    return any(words in said for words in RETRIED)


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
