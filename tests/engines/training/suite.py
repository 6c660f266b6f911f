"""The end-to-end tests that kubeflow-training carries in its own package, unmodified, on the embedded Kubernetes:
`python -m tests.engines.training.suite`.

Programs of ours stand for those of the images, and a scheduler of ours for the scheduler plugins.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree

from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir
from tests.engines.training import gangs

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).with_name("programs.py")
WORDS = ("python", "torchrun", "mpirun")
IMAGES = (
    "docker.io/hello-world",
    "docker.io/kubeflow/jaxjob-dist-spmd-mnist",
    "docker.io/kubeflow/xgboost-dist-iris",
    "docker.io/paddlepaddle/paddle",
    "docker.io/pytorch/pytorch",
    "gcr.io/kubeflow-ci/tf-mnist-with-summaries",
    "horovod/horovod",
    "kubeflow/pytorch-dist-mnist",
)
PLAIN, GANGS = 9, 6
"""Tests that have to pass without a gang scheduler, and with one: each is skipped in the other case."""
SECONDS = 900


def run() -> int:
    """Return 0 where every test has passed in one of the two cases."""
    passed = run_tests(gang=False), run_tests(gang=True)
    print(f"{sum(passed)} of {PLAIN + GANGS} tests of kubeflow-training passed")
    return 0 if passed == (PLAIN, GANGS) else 1


def run_tests(*, gang: bool) -> int:
    """Run the tests, with a gang scheduler or without; return how many passed."""
    tests = Path(str(distribution("kubeflow-training").locate_file("test")))
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-training-") as scratch,
        _up(Path(scratch), gang) as state,
    ):
        results = Path(scratch) / "results.xml"
        # The jobs of one kind are listed by its tests, and their names are the same: each kind is a worker's.
        options = ["-q", "-n", "6", "--dist", "loadfile", "-p", "no:cacheprovider", "-c", os.devnull]
        options += ["-p", "no:asyncio", "-p", "tests.engines.training.small_requests"]
        where = [f"--rootdir={tests}", f"--confcutdir={tests}", f"--junitxml={results}", str(tests / "e2e")]
        scheduler = gangs.scheduler(state.kubeconfig) if gang else nullcontext()
        names = {
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(state.kubeconfig),
            "GANG_SCHEDULER_NAME": "scheduler-plugins" if gang else "",
        }
        with scheduler:
            subprocess.run(
                [sys.executable, "-m", "pytest", *options, *where],
                cwd=tests,
                env=os.environ | names,
                timeout=SECONDS,
                check=False,
            )
        return sum(not len(case) for case in _cases(results))


def _cases(results: Path) -> list[ElementTree.Element]:
    """Return the tests; one that failed or was skipped has an element that says so."""
    return list(ElementTree.parse(results).getroot().iter("testcase"))


@contextmanager
def _up(folder: Path, gang: bool) -> Iterator[StateDir]:
    """Yield a machine that is up, with the programs of the images."""
    state, settings = StateDir(folder / "state"), folder / "steelyard.toml"
    settings.write_text(f'[operator.training]\ngang_scheduler = "{gangs.SCHEDULER if gang else ""}"\n')
    start_detached(state.path, UpOptions(without=("platform",), settings=settings))
    try:
        programs = folder / "bin"
        programs.mkdir()
        for word in WORDS:
            program = programs / word
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAMS} {word} "$@"\n')
            program.chmod(0o755)
        with state.images.open("a") as images:
            for image in IMAGES:
                images.write(f'\n["{image}"]\npython = "{programs / "python"}"\ncommand = ["python"]\n')
        yield state
    finally:
        stop(state.path)


if __name__ == "__main__":
    sys.exit(run())
