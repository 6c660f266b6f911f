"""`make test-engines`: the suites that run on the real engines, and on other Pythons. What cannot run is named and
counted.

A suite is left out only where its toolchain is missing. Where a JDK and Go are there, leaving out a suite of the
platform's own engines is a failure; where network namespaces can be made besides, so is leaving out the lost packets;
where Node is there, Azure's protocol; and where Go and the rights for a node are there, Ray's real operators and the
artifacts. All that is needed besides is a package of Debian or of a registry.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from tests.engines.artifacts import suite as artifacts
from tests.engines.browser import suite as browser
from tests.engines.build import Missing, binaries
from tests.engines.clients import suite as clients
from tests.engines.control_plane import OURS, control_plane
from tests.engines.lanes import LEFT_OUT, Summary, command_of, lanes, run_side_by_side
from tests.engines.lm_eval import suite as lm_eval
from tests.engines.model_servers import suite as model_servers
from tests.engines.node import suite as node
from tests.engines.node.cluster import require_namespaces
from tests.engines.notebooks import suite as notebooks
from tests.engines.openai_clients import suite as openai_clients
from tests.engines.operators import suite as operators
from tests.engines.originals import suite as originals
from tests.engines.ray import suite as ray
from tests.engines.services import suite as services
from tests.engines.services.network import require as require_networks
from tests.frameworks import suite as frameworks
from tests.kubernetes_controllers.ours import controllers as our_controllers
from tests.kubernetes_workloads.__main__ import compare as workloads
from tests.versions import suite as versions
from tests.versions.interpreters import OTHERS, VERSIONS

NOTEBOOKS = "STEELYARD_NOTEBOOKS"
"""Name of the variable that lets the notebooks run, whatever its value."""
ROOT = Path(__file__).parent.parent.parent
ENGINES = ("Kafka", "PostgreSQL", "S3", "Google Cloud Storage", "MongoDB")
"""Beginnings of the suites that are never left out where a JDK and Go are there."""
NAMESPACES = "Network namespaces"
"""Beginning of the suite that is never left out where namespaces of networks can be made besides."""
AZURE = "Azure Blob Storage"
"""Beginning of the suite that is never left out where Node is there."""
OPERATORS, ARTIFACTS = "Ray's real operators", "Artifacts on a real node"
"""Beginnings of the suites that are never left out where Go and the rights for a node are there."""
MODEL_SERVERS = "STEELYARD_MODEL_SERVERS"
"""Name of the variable that chooses servers: `vllm`, `llama.cpp` or, by default, both.

A llama.cpp is built from source, which takes minutes that CI does not have.
"""


def kubernetes() -> int:
    """The API's cases and the kubectl session on a real control plane; pytest's exit status."""
    built = binaries()
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-engines-") as folder,
        control_plane(built, Path(folder)) as kubeconfig,
    ):
        environment = os.environ | {"KUBECONFIG_REAL": str(kubeconfig)}
        command = [sys.executable, "-m", "pytest", "-q", "tests/kubernetes_api"]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def controllers(*, ours: bool) -> int:
    """The controllers' cases on a real API server: with our controllers, or with its own as the judge."""
    built = binaries()
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-engines-") as folder,
        control_plane(built, Path(folder), OURS if ours else ()) as kubeconfig,
        our_controllers(kubeconfig) if ours else nullcontext(),
    ):
        chosen = {"KUBECONFIG_REAL": str(kubeconfig), "STEELYARD_CONTROLLERS": "ours" if ours else ""}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "4", "tests/kubernetes_controllers"]
        return subprocess.run(command, cwd=ROOT, env=os.environ | chosen, check=False).returncode


def notebook_session() -> int:
    """Run the notebooks, where the environment asks for them: they take minutes that CI does not have."""
    if not os.environ.get(NOTEBOOKS):
        raise Missing(f"{NOTEBOOKS} is not set")
    return notebooks.run()


def model_server(name: str, suite: Callable[[], int]) -> int:
    """Run the suite of a model server, unless the environment chooses others."""
    chosen = os.environ.get(MODEL_SERVERS, "").replace(",", " ").split()
    if chosen and name not in chosen:
        raise Missing(f"{MODEL_SERVERS} is {' '.join(chosen)}")
    return suite()


SUITES: dict[str, Callable[[], int]] = {
    "Kubernetes (API cases, kubectl session)": kubernetes,
    "Kubernetes controllers (ours on a real API server)": partial(controllers, ours=True),
    "Kubernetes controllers (the real ones, as the judge of the cases)": partial(controllers, ours=False),
    "Kubernetes clients (kubernetes, kubernetes_asyncio, kr8s, lightkube, kopf; on both servers)": clients.run_python,
    "kubectl 1.35, 1.34 and this machine's, and helm (one session on both servers)": clients.run_programs,
    "client-go and controller-runtime (on both servers)": clients.run_go,
    "Kubernetes node (kubelet, containerd, runc, kube-proxy, CoreDNS: two at once, killed)": node.run,
    f"{ARTIFACTS} (an image pushed by oras-py, pulled by containerd; oras, crane and helm)": artifacts.run,
    "Ray (clusters, jobs and queues of one machine, by codeflare-sdk)": ray.run,
    "Ray, encrypted (certificates of Pods and clients, by codeflare-sdk and by ours)": ray.run_encrypted,
    "Notebooks (the guided demos: clusters, queues, Ray Train, Data and Tune, evaluation)": notebook_session,
    "Ray's operators (the client's tests of clusters, jobs, queues, AppWrappers, rights; embedded)": partial(
        operators.run, "embedded"
    ),
    f"{OPERATORS} (the same tests on KubeRay, Kueue and AppWrapper with a real node)": partial(
        operators.run, "real"
    ),
    "Kubernetes workloads (Pods, Jobs, Deployments, Services: the embedded one beside a real node)": workloads,
    "Chromium (accessibility)": browser.run,
    "lm-eval (its numbers beside ours)": lm_eval.run,
    "OpenAI's client (the newest, and 1.0: the mock, a hosted model, a session)": openai_clients.run,
    "originals (sacrebleu, rouge-score, scikit-learn, Inspect, Math-Verify beside our rubrics)": originals.run,
    "llama.cpp (a real server: chat, likelihoods, ended in the middle, a Pod of the platform)": partial(
        model_server, "llama.cpp", model_servers.llama_cpp
    ),
    "vLLM (a real server: chat, likelihoods beside lm-eval's hf, ended in the middle)": partial(
        model_server, "vllm", model_servers.vllm
    ),
    "Kafka (three brokers: the contract of logs, members and brokers killed)": services.run_kafka,
    "PostgreSQL (the contracts of the accounts database, killed)": services.run_postgresql,
    "S3 (a real server: the contract of stores, uploads, killed)": partial(services.run_store, "s3"),
    # Before the short ones: it takes the longest of these, and the other lane would wait for its end.
    "Kafka, PostgreSQL, S3 and MongoDB's protocol (the story, each killed while it is told)": services.run_story,
    "Google Cloud Storage (fake-gcs-server behind a translator: the same; see docs/engines.md)": partial(
        services.run_store, "gcs"
    ),
    "Azure Blob Storage (Azurite: the same)": partial(services.run_store, "azure"),
    "MongoDB's protocol (the contract of views, killed; no elections: see docs/engines.md)": services.run_mongodb,
    "Network namespaces (the same four, and packets to them lost)": services.run_lost_packets,
    "XGBoost and LightGBM (training side by side, a worker of each killed)": partial(
        frameworks.run, "xgboost", "lightgbm"
    ),
    "MXNet (training, a worker killed)": partial(frameworks.run, "mxnet"),
    **{
        f"Python {version} (client, command line, evaluation)": partial(versions.run, version)
        for version in OTHERS
        if version != VERSIONS[-1]
    },
    **{
        f"Python {version} (all unit tests)": partial(versions.run, version, ("src",))
        for version in OTHERS
        if version == VERSIONS[-1]
    },
}


def run_alone(name: str) -> int:
    """Run one suite in this process; return its exit status, or LEFT_OUT after the reason."""
    try:
        return SUITES[name]()
    except Missing as reason:
        print(reason)
        return LEFT_OUT


def needed() -> dict[str, str]:
    """Return the beginnings of suites that may not be left out on this machine, with the toolchain that is there."""
    words: dict[str, str] = {}
    if _installed("java", "go"):
        words |= dict.fromkeys(ENGINES, "a JDK and Go")
        if _permits(require_networks):
            words[NAMESPACES] = "a JDK, Go and the rights for networks"
    if _installed("node", "npm"):
        words[AZURE] = "Node and npm"
    if _installed("go") and _permits(require_namespaces):
        words |= dict.fromkeys((OPERATORS, ARTIFACTS), "Go and the rights for a node")
    return words


def _installed(*programs: str) -> bool:
    return all(shutil.which(program) for program in programs)


def _permits(require: Callable[[], None]) -> bool:
    """Return whether this machine permits what raises Missing where it does not."""
    try:
        require()
    except Missing:
        return False
    return True


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines", description="Run the suites on the real engines, two at a time."
    )
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help="how its name begins, such as 'Kafka ('; all of them, if none is given: " + "; ".join(SUITES),
    )
    parser.add_argument("--alone", action="store_true", help="run one suite, and show what it prints at once")
    options = parser.parse_args(arguments)
    for start in options.suites:
        if not any(name.startswith(start) for name in SUITES):
            parser.error(f"no suite begins with {start!r}; there are: {'; '.join(SUITES)}")
    chosen = [name for name in SUITES if not options.suites or name.startswith(tuple(options.suites))]
    if options.alone:
        if len(chosen) != 1:
            parser.error(f"--alone runs one suite; {len(chosen)} begin so: {'; '.join(chosen)}")
        return run_alone(chosen[0])
    summary = Summary(needed())
    for result in run_side_by_side({name: command_of(name) for name in chosen}, lanes()):
        print(f"---- {result.name}: {result.seconds:.0f} s\n{result.output}", flush=True)
        summary.add(result)
    print(summary)
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
