"""`make test-engines`: the suites that run on the real engines, and on other Pythons. What cannot run is named and
counted.

passed.json beside this file records the inputs with which each suite passed. CI runs `--changed`: suites whose inputs
are those of the record are named, and not run.

A suite is left out only where its toolchain is missing. Where a JDK and Go are there, leaving out a suite of the
platform's own engines is a failure; where network namespaces can be made besides, so is leaving out the lost packets;
where Node is there, Azure's protocol; and where Go and the rights for a node are there, Ray's real operators, the
artifacts and the chart. All that is needed besides is a package of Debian or of a registry.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.engines.artifacts import suite as artifacts
from tests.engines.browser import suite as browser
from tests.engines.build import Missing, binaries
from tests.engines.chart import suite as chart
from tests.engines.clients import suite as clients
from tests.engines.control_plane import OURS, control_plane
from tests.engines.dyff_audit import suite as dyff_audit
from tests.engines.images import suite as images
from tests.engines.inputs import ALL, Tree
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
from tests.engines.readers import suite as readers
from tests.engines.record import PassingRun, commit_name, read_record, renew_record
from tests.engines.services import suite as services
from tests.engines.services.network import require as require_networks
from tests.engines.training import suite as training
from tests.frameworks import suite as frameworks
from tests.kubernetes_controllers.ours import controllers as our_controllers
from tests.kubernetes_workloads.__main__ import compare as workloads
from tests.versions import suite as versions
from tests.versions.interpreters import OTHERS, VERSIONS

NOTEBOOKS = "STEELYARD_NOTEBOOKS"
"""Name of the variable that lets a long suite run, whatever its value."""
ROOT = Path(__file__).parent.parent.parent
ENGINES = ("Kafka", "PostgreSQL", "S3", "Google Cloud Storage", "MongoDB")
"""Beginnings of the suites that are never left out where a JDK and Go are there."""
NAMESPACES = "Network namespaces"
"""Beginning of the suite that is never left out where namespaces of networks can be made besides."""
AZURE = "Azure Blob Storage"
"""Beginning of the suite that is never left out where Node is there."""
OPERATORS, ARTIFACTS = "Ray's real operators", "Artifacts on a real node"
CHART = "Chart on a real node"
"""Beginnings of the suites that are never left out where Go and the rights for a node are there."""
IMAGES_CHOICE = "STEELYARD_IMAGES"
"""Name of the variable that leaves the suite of images out where it is `no`; that of the chart makes and runs them."""
SERVERS_OF_CHART = "Chart on servers"
"""Beginning of the suite of the chart's other shapes."""
SHAPES_CHOICE = "STEELYARD_SHAPES"
"""Name of the variable that leaves it out where it is `no`: it takes minutes that CI does not have."""
READERS = "DuckDB, mlcroissant, promtool and Svix"
"""Beginning of the suite that is never left out where Go and Debian's packages are there."""
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


def long_suite(variable: str, suite: Callable[[], int]) -> int:
    """Run a suite where the environment asks for it: it takes minutes that CI does not have."""
    if not os.environ.get(variable):
        raise Missing(f"{variable} is not set")
    return suite()


def optional_suite(variable: str, suite: Callable[[], int]) -> int:
    """Run a suite unless the environment leaves it out by `no`."""
    if os.environ.get(variable) == "no":
        raise Missing(f"{variable} is no")
    return suite()


def model_server(name: str, suite: Callable[[], int]) -> int:
    """Run the suite of a model server, unless the environment chooses others."""
    chosen = os.environ.get(MODEL_SERVERS, "").replace(",", " ").split()
    if chosen and name not in chosen:
        raise Missing(f"{MODEL_SERVERS} is {' '.join(chosen)}")
    return suite()


@dataclass(frozen=True)
class Suite:
    """A suite, and the files and folders that are its own: what these import and name are inputs too."""

    run: Callable[[], int]
    own: tuple[str, ...]


API = ("tests/kubernetes_api", "tests/engines/kubernetes")
CONTROLLERS = ("tests/kubernetes_controllers", "tests/engines/control_plane.py", "tests/engines/kubernetes")
CLIENTS = ("tests/engines/clients", "tests/engines/helm", "tests/engines/kubernetes")
NODE = ("tests/engines/node", "tests/engines/coredns", "tests/engines/kubernetes")
RAY = ("tests/engines/ray",)
RAY_OPERATORS = ("tests/engines/operators", *NODE)
SERVERS = ("tests/engines/model_servers", "tests/engines/lm_eval")
SERVICES = ("tests/engines/services",)
FRAMEWORKS = ("tests/frameworks",)

SUITES: dict[str, Suite] = {
    "Kubernetes (API cases, kubectl session)": Suite(kubernetes, API),
    "Kubernetes controllers (ours on a real API server)": Suite(partial(controllers, ours=True), CONTROLLERS),
    "Kubernetes controllers (the real ones, as the judge of the cases)": Suite(
        partial(controllers, ours=False), CONTROLLERS
    ),
    "Kubernetes clients (kubernetes, kubernetes_asyncio, kr8s, lightkube, kopf; on both servers)": Suite(
        clients.run_python, CLIENTS
    ),
    "kubectl 1.35, 1.34 and this machine's, and helm (one session on both servers)": Suite(
        clients.run_programs, CLIENTS
    ),
    "client-go and controller-runtime (on both servers)": Suite(clients.run_go, CLIENTS),
    "Kubernetes node (kubelet, containerd, runc, kube-proxy, CoreDNS: two at once, killed)": Suite(
        node.run, NODE
    ),
    f"{ARTIFACTS} (an image pushed by oras-py, pulled by containerd; oras, crane, skopeo and helm)": Suite(
        artifacts.run, ("tests/engines/artifacts", "tests/engines/helm", *NODE)
    ),
    f"{CHART} (images are made, helm installs the platform, which tells its story; killed, upgraded)": Suite(
        chart.run, ("tests/engines/chart", "tests/engines/helm", "deploy", "packages", "src", *NODE)
    ),
    f"{SERVERS_OF_CHART} (Kafka, PostgreSQL, S3, MongoDB's protocol: the shapes small and large; all killed)": Suite(
        partial(optional_suite, SHAPES_CHOICE, chart.run_shapes),
        (
            "tests/engines/chart",
            "tests/engines/helm",
            "tests/engines/services",
            "deploy",
            "packages",
            "src",
            *NODE,
        ),
    ),
    "Container images (made twice, run without rights on a root that is read-only; run by containerd)": Suite(
        partial(optional_suite, IMAGES_CHOICE, images.run), ("tests/engines/images", "deploy", *NODE)
    ),
    "Ray (clusters, jobs and queues of one machine, by codeflare-sdk)": Suite(ray.run, RAY),
    "Ray, encrypted (certificates of Pods and clients, by codeflare-sdk and by ours)": Suite(
        ray.run_encrypted, RAY
    ),
    "kubeflow-training (the end-to-end tests of its own package)": Suite(
        training.run, ("tests/engines/training",)
    ),
    "Notebooks (the guided demos: clusters, queues, Ray Train, Data and Tune, evaluation)": Suite(
        partial(long_suite, NOTEBOOKS, notebooks.run), ("tests/engines/notebooks",)
    ),
    "Ray's operators (the client's tests of clusters, jobs, queues, AppWrappers, rights; embedded)": Suite(
        partial(operators.run, "embedded"), RAY_OPERATORS
    ),
    f"{OPERATORS} (the same tests on KubeRay, Kueue and AppWrapper with a real node)": Suite(
        partial(operators.run, "real"), RAY_OPERATORS
    ),
    "Kubernetes workloads (Pods, Jobs, Deployments, Services: the embedded one beside a real node)": Suite(
        workloads, ("tests/kubernetes_workloads", *NODE)
    ),
    "Chromium (accessibility)": Suite(browser.run, ("tests/engines/browser",)),
    "lm-eval (its numbers beside ours)": Suite(lm_eval.run, ("tests/engines/lm_eval",)),
    "OpenAI's client and LiteLLM (the newest, 1.0 and 1.53: the mock, a hosted model, a session)": Suite(
        openai_clients.run, ("tests/engines/openai_clients",)
    ),
    f"{READERS} (the newest and the oldest that we name: tables, Croissant, figures, webhooks)": Suite(
        readers.run, ("tests/engines/readers",)
    ),
    "dyff-audit (its published tests on one machine, and a report by a rubric of its own)": Suite(
        dyff_audit.run, ("tests/engines/dyff_audit",)
    ),
    "originals (sacrebleu, rouge-score, scikit-learn, Inspect, Math-Verify beside our rubrics)": Suite(
        originals.run, ("tests/engines/originals", "tests/answers")
    ),
    "llama.cpp (a real server: chat, likelihoods, ended in the middle, a Pod of the platform)": Suite(
        partial(model_server, "llama.cpp", model_servers.llama_cpp), SERVERS
    ),
    "vLLM (a real server: chat, likelihoods beside lm-eval's hf, ended in the middle)": Suite(
        partial(model_server, "vllm", model_servers.vllm), SERVERS
    ),
    "Kafka (three brokers: the contract of logs, members and brokers killed)": Suite(
        services.run_kafka, SERVICES
    ),
    "PostgreSQL (the contracts of the accounts database, killed)": Suite(services.run_postgresql, SERVICES),
    "S3 (a real server: the contract of stores, uploads, killed)": Suite(
        partial(services.run_store, "s3"), SERVICES
    ),
    "A storage folder (the server of the platform's own: the same)": Suite(
        partial(services.run_store, "folder"), SERVICES
    ),
    # Before the short ones: it takes the longest of these, and the other lane would wait for its end.
    "Kafka, PostgreSQL, S3 and MongoDB's protocol (the story, each killed while it is told)": Suite(
        services.run_story, SERVICES
    ),
    "Google Cloud Storage (fake-gcs-server behind a translator: the same; see docs/engines.md)": Suite(
        partial(services.run_store, "gcs"), SERVICES
    ),
    "Azure Blob Storage (Azurite: the same)": Suite(partial(services.run_store, "azure"), SERVICES),
    "MongoDB's protocol (the contract of views, killed; no elections: see docs/engines.md)": Suite(
        services.run_mongodb, SERVICES
    ),
    "Network namespaces (the same four, and packets to them lost)": Suite(
        services.run_lost_packets, SERVICES
    ),
    "XGBoost and LightGBM (training side by side, a worker of each killed)": Suite(
        partial(frameworks.run, "xgboost", "lightgbm"), FRAMEWORKS
    ),
    "MXNet (training, a worker killed)": Suite(partial(frameworks.run, "mxnet"), FRAMEWORKS),
    # Unit tests also read pages and files of other folders.
    **{
        f"Python {version} (client, command line, evaluation)": Suite(partial(versions.run, version), (ALL,))
        for version in OTHERS
        if version != VERSIONS[-1]
    },
    **{
        f"Python {version} (all unit tests)": Suite(
            partial(versions.run, version, ("src", "packages")), (ALL,)
        )
        for version in OTHERS
        if version == VERSIONS[-1]
    },
}


def run_alone(name: str) -> int:
    """Run one suite in this process; return its exit status, or LEFT_OUT after the reason."""
    try:
        return SUITES[name].run()
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
    if _installed("go", "apt-get"):
        words[READERS] = "Go and Debian's packages"
    if _installed("go") and _permits(require_namespaces):
        words |= dict.fromkeys((OPERATORS, ARTIFACTS, CHART), "Go and the rights for a node")
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
    parser.add_argument(
        "--changed",
        action="store_true",
        help="leave out the suites that passed with the inputs of this tree, and leave the record as it is",
    )
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
    tree, commit, record = Tree(ROOT), commit_name(ROOT), read_record()
    # Before they run: what is edited meanwhile was not tested.
    runs = {name: PassingRun(commit, tree.digest(SUITES[name].own)) for name in chosen}
    if options.changed:
        for name in [name for name in chosen if name in record and record[name].digest == runs[name].digest]:
            chosen.remove(name)
            summary.add_unchanged(name, record[name].commit)
    for result in run_side_by_side({name: command_of(name) for name in chosen}, lanes()):
        print(f"---- {result.name}: {result.seconds:.0f} s\n{result.output}", flush=True)
        summary.add(result)
        # At once, so that a run that is interrupted has recorded what passed.
        if not options.changed and result.status != LEFT_OUT:
            renew_record(SUITES, result.name, runs[result.name] if result.status == 0 else None)
    print(summary)
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
