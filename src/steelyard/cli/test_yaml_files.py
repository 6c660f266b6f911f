"""Every YAML file that a command reads: a few lines that stand for gigabytes end in one plain line, at once."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.cli.documents import read as read_documents
from steelyard.cli.eval.option_values import find_prices
from steelyard.cli.manifests import read_manifests
from steelyard.cli.ray.connecting import read_config
from steelyard.cli.train.convert import convert
from steelyard.cli.train.framework_file import read as read_framework
from steelyard_common.errors import SteelyardError
from steelyard_common.whole_files import DOCUMENT_BYTES
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.tasks import load_task
from steelyard_kube.kubeconfig import KubeconfigError
from steelyard_kube.kubeconfig import load as load_kubeconfig

_LEVELS = 40


def _aliases() -> str:
    lines = ["kind: Report", "a0: &a0 [x]"]
    return "\n".join([*lines, *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(_LEVELS))])


def _merge_keys() -> str:
    lines = ["kind: Report", "a0: &a0 {x: y}"]
    return "\n".join([*lines, *(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(_LEVELS))])


BOMBS: dict[str, str] = {
    "aliases": _aliases(),
    "merge keys": _merge_keys(),
    "aliases of texts": "kind: Report\nt: &t " + "x" * 100_000 + "\nl: [" + ", ".join(["*t"] * 10_000) + "]",
    "a number to the base of 60": "kind: Report\nn: " + "1:" * 200_000 + "1",
    "a long number": "kind: Report\nn: 0x" + "f" * 200_000,
    "depth": "kind: Report\nd: " + "[" * 100_000,
    "depth of objects": "kind: Report\nd: " + "{a: " * 50_000,
    "a list that holds itself": "kind: Report\na: &a [*a, *a]",
    # Each of them is within the limits.
    "many documents": f"---\na: &a {'y' * 10_000}\nb: [{', '.join(['*a'] * 250)}]\n" * 20,
    "nodes": "kind: Report\nl: [" + "1," * 120_000 + "1]",
    "bytes": " " * (DOCUMENT_BYTES + 1),
}


def _convert(path: Path) -> None:
    convert(path)


def _run(path: Path) -> None:
    (path.parent / "run.yaml").write_text(path.read_text())
    RunFolder(path.parent).request()


READERS: dict[str, Callable[[Path], object]] = {
    "create -f": lambda path: read_documents([path]),
    "run": lambda path: read_manifests(path.parent),
    "train convert": _convert,
    "train --framework": read_framework,
    "eval --prices": lambda path: find_prices(path, "m", needed=True),
    "eval run FILE": load_task,
    "run.yaml": _run,
    "ray apply": read_config,
    "kubeconfig": load_kubeconfig,
}


LIMIT_SAID = "at most|excessive|inside what it names|aliases are not read|are allowed$"
"""Words of every message about a limit: a reader that has made all of a file finds another fault in it."""


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_stands_for_gigabytes_is_refused(reader: str, bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(BOMBS[bomb])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((SteelyardError, KubeconfigError), match=LIMIT_SAID):
        READERS[reader](path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10  # KiB
