"""`make test-engines`: the suites that run on the real engines, and on other Pythons. What cannot run is named and
counted.

A suite is left out only where its toolchain is missing; where the toolchain is there, leaving it out is a
failure.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.engines.browser import suite as browser
from tests.engines.build import Missing, binaries
from tests.engines.clients import suite as clients
from tests.engines.control_plane import control_plane
from tests.engines.lm_eval import suite as lm_eval
from tests.engines.model_servers import suite as model_servers
from tests.engines.originals import suite as originals
from tests.engines.services import suite as services
from tests.frameworks import suite as frameworks
from tests.versions import suite as versions
from tests.versions.interpreters import OTHERS

ROOT = Path(__file__).parent.parent.parent
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


def model_server(name: str, suite: Callable[[], int]) -> int:
    """Run the suite of a model server, unless the environment chooses others."""
    chosen = os.environ.get(MODEL_SERVERS, "").replace(",", " ").split()
    if chosen and name not in chosen:
        raise Missing(f"{MODEL_SERVERS} is {' '.join(chosen)}")
    return suite()


SUITES: dict[str, Callable[[], int]] = {
    "Kubernetes (API cases, kubectl session)": kubernetes,
    "Kubernetes clients (kubernetes, kubernetes_asyncio, kr8s, lightkube, kopf; on both servers)": clients.run_python,
    "kubectl and helm (one session on both servers)": clients.run_programs,
    "Chromium (accessibility)": browser.run,
    "lm-eval (its numbers beside ours)": lm_eval.run,
    "originals (sacrebleu, rouge-score, scikit-learn, Inspect, Math-Verify beside our rubrics)": originals.run,
    "llama.cpp (a real server: chat, likelihoods, ended in the middle, a Pod of the platform)": partial(
        model_server, "llama.cpp", model_servers.llama_cpp
    ),
    "vLLM (a real server: chat, likelihoods beside lm-eval's hf, ended in the middle)": partial(
        model_server, "vllm", model_servers.vllm
    ),
    "Kafka (three brokers: the contract of logs, members and brokers killed)": services.run_kafka,
    "PostgreSQL (the contracts of the accounts database, killed)": services.run_postgresql,
    "S3 (a real server: the contract of stores, uploads, killed)": services.run_s3,
    "MongoDB's protocol (the contract of views, killed; no elections: see docs/engines.md)": services.run_mongodb,
    "Kafka, PostgreSQL, S3 and MongoDB's protocol (the story, each killed while it is told)": services.run_story,
    "XGBoost and LightGBM (training side by side, a worker of each killed)": partial(
        frameworks.run, "xgboost", "lightgbm"
    ),
    "MXNet (training, a worker killed)": partial(frameworks.run, "mxnet"),
    **{
        f"Python {version} (client, command line, evaluation)": partial(versions.run, version)
        for version in OTHERS
    },
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines", description="Run the suites on the real engines."
    )
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help="how its name begins, such as 'Kafka ('; all of them, if none is given: " + "; ".join(SUITES),
    )
    chosen = parser.parse_args(arguments).suites
    for start in chosen:
        if not any(name.startswith(start) for name in SUITES):
            parser.error(f"no suite begins with {start!r}; there are: {'; '.join(SUITES)}")
    passed: list[str] = []
    failed: list[str] = []
    missing: list[str] = []
    for name, suite in SUITES.items():
        if chosen and not name.startswith(tuple(chosen)):
            continue
        try:
            (failed if suite() else passed).append(name)
        except Missing as reason:
            missing.append(f"{name}: {reason}")
    for name in missing:
        print(f"left out: {name}")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(missing)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
