"""Files of the repository that are made from the schema, or that it describes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy import generate
from steelyard_schema.definitions import find_spec_schema
from steelyard_schema.generate import files
from steelyard_schema.unknown_fields import unknown_fields, unknown_pod_fields
from tests.engines.build import built_helm
from tests.source import ROOT

EXAMPLES = ROOT / "examples"


def test_generated_files_are_as_committed() -> None:
    for name, content in files().items():
        assert (ROOT / name).read_text() == content, f"{name}: run `python -m steelyard_schema.generate`"


def test_generated_files_of_deploy_are_as_committed() -> None:
    for name, content in generate.files().items():
        assert (generate.DEPLOY / name).read_text() == content, f"{name}: run `python -m deploy.generate`"


def test_each_value_of_the_chart_is_one_row_of_its_page() -> None:
    lines = generate.page().partition("| value | default | meaning |")[2].strip().splitlines()
    assert [line for line in lines if not (line.startswith("|") and line.endswith("|"))] == []


@pytest.mark.skipif(
    not built_helm(), reason="helm is not built here: the suite of the chart compares the objects"
)
def test_the_objects_without_helm_are_as_committed() -> None:
    helm = built_helm()
    assert helm
    content = (generate.DEPLOY / generate.OBJECTS).read_text()
    assert content == generate.objects(helm), f"{generate.OBJECTS}: run `python -m deploy.generate`"


def bounds_of(node: object) -> Iterator[int | float]:
    if isinstance(node, dict):
        for word in ("minimum", "maximum"):
            if isinstance(node.get(word), int | float):
                yield node[word]
        for inner in node.values():
            yield from bounds_of(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from bounds_of(inner)


@pytest.mark.parametrize("path", sorted(generate.CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_bound_is_exact_as_a_float(path: Path) -> None:
    """An API server reads bounds as 64-bit floats, and 2^63-1 would become a bound that nothing keeps to."""
    bounds = list(bounds_of(yaml.safe_load(path.read_text())))
    assert all(abs(bound) <= 2**53 for bound in bounds)


@pytest.mark.parametrize(
    "file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: str(path.relative_to(EXAMPLES))
)
def test_every_example_has_fields_that_exist(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        if isinstance(document, dict):
            assert list(unknown_fields(find_spec_schema(document), document.get("spec"), "spec")) == []
            assert list(unknown_pod_fields(document)) == []
