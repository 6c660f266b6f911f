"""Tests that the examples' manifests carry what their folders hold; they need no framework."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.frameworks.examples import EXAMPLES, FOLDER, LOCKS, Example


def _embed() -> ModuleType:
    spec = importlib.util.spec_from_file_location("embed", FOLDER / "embed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_manifest_carries_the_program_as_it_is(example: Example) -> None:
    folder = FOLDER / example.name
    assert (folder / "job.yaml").read_text() == _embed().manifest(folder), "run examples/training/embed.py"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_replica_runs_the_example_s_image(example: Example) -> None:
    _, job = example.manifests(Path("/elsewhere"))
    assert (job["metadata"]["name"], job["kind"]) == (example.job, example.jobs.kind)
    images = {
        container["image"]
        for specs in (value for name, value in job["spec"].items() if name.endswith("ReplicaSpecs"))
        for spec in specs.values()
        for container in spec["template"]["spec"]["containers"]
    }
    assert images == {f"frameworks/{example.environment}"}
    assert (LOCKS / f"{example.environment}.txt").exists()


def test_every_example_is_in_the_suite() -> None:
    assert {example.name for example in EXAMPLES} == {folder.name for folder in _embed().examples()}
