"""Manifests as `steelyard run` reads them: ids that are replaced, and faults that are named."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from steelyard.cli.manifests import freshen, read_manifests
from steelyard_common.errors import UsageError

OLD = "0" * 31 + "1"


def numbered() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{next(numbers):032x}".replace("0", "f")


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_an_id_is_replaced_wherever_another_manifest_refers_to_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=f"apiVersion: dyff.io/v1alpha1\nkind: Model\nmetadata: {{name: model-{OLD}}}\nspec: {{id: '{OLD}'}}\n",
        b=f"apiVersion: v1\nkind: Other\nmetadata: {{name: scores}}\nspec: {{source: models/{OLD}}}\n",
    )
    model, report = freshen(read_manifests(tmp_path), numbered())
    new = model.content["spec"]["id"]
    assert new != OLD
    assert model.name == f"model-{new}"
    assert report.content["spec"]["source"] == f"models/{new}"
    assert report.name.startswith("scores-")


def test_an_id_is_replaced_where_it_is_a_key(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=f"apiVersion: dyff.io/v1alpha1\nkind: Report\nmetadata: {{name: model}}\nspec: {{id: '{OLD}'}}\n",
        b=f"apiVersion: v1\nkind: Other\nmetadata: {{name: a}}\nspec: {{'{OLD}': 1, model: 2}}\n",
    )
    report, audit = freshen(read_manifests(tmp_path), numbered())
    assert audit.content["spec"] == {report.content["spec"]["id"]: 1, "model": 2}


def test_a_name_is_replaced_only_as_a_whole_word(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: digits}\ndata: {a: digits, b: digitsonly}\n",
    )
    (manifest,) = freshen(read_manifests(tmp_path), numbered())
    assert manifest.content["data"] == {"a": manifest.name, "b": "digitsonly"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a\n", "is a list"),
        ("kind: Model\nmetadata: {name: a}\n", "apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "metadata.name is missing"),
        ("a: [\n", "not YAML"),
        (
            "apiVersion: dyff.io/v1alpha1\nkind: Evaluation\nmetadata: {name: a}\nspec: {replicashuns: 1}\n",
            r"spec\.replicashuns: there is no such field; did you mean replications\?",
        ),
    ],
)
def test_a_file_that_is_no_manifest_is_named_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    write(tmp_path, wrong=text)
    with pytest.raises(UsageError, match=fault) as refused:
        read_manifests(tmp_path)
    assert "wrong.yaml" in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"a: 2030-13-01\n", b"name: \xe9\n", b"[" * 1000], ids=["no date", "latin-1", "nested"]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.yaml: is not YAML"):
        read_manifests(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no manifest"):
        read_manifests(tmp_path)


def test_the_items_of_a_list_are_manifests(tmp_path: Path) -> None:
    item = "{{apiVersion: dyff.io/v1alpha1, kind: Model, metadata: {{name: {}}}}}"
    items = f"- {item.format('one')}\n- {item.format('two')}\n"
    write(tmp_path, a=f"apiVersion: v1\nkind: List\nitems:\n{items}", b=item.format("three"))
    assert [manifest.name for manifest in read_manifests(tmp_path)] == ["one", "two", "three"]
    write(tmp_path, a="apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}]\n")
    with pytest.raises(UsageError, match="item 1: metadata is missing"):
        read_manifests(tmp_path)
