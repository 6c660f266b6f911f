"""Files of entities: what they may hold, references between documents, and the words of each refusal."""

from pathlib import Path

import pytest

from steelyard.cli.connection import collection_name
from steelyard.cli.documents import check_references, read
from steelyard_common.errors import UsageError

TWO = """
kind: Dataset
as: rows
account: acme
name: rows
---
kind: Evaluation
account: acme
dataset: $(rows)
client: {extraOptions: {from: "x-$(rows)"}}
"""


OWN = """
kind: Dataset
as: rows
---
kind: Pipeline
nodes: {ask: {request: {dataset: $(rows), inferenceService: $(service)}}}
---
kind: InferenceService
runner: {args: [--host, $(POD_IP)]}
"""


def test_documents_are_read_in_order_and_refer_to_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text("kind: report\naccount: acme\n")
    (tmp_path / "1.yaml").write_text(TWO)
    (tmp_path / "notes.txt").write_text("not read")
    documents = read([tmp_path])
    assert [document.collection for document in documents] == ["datasets", "evaluations", "reports"]
    assert documents[0].resolve({}) == {"account": "acme", "name": "rows"}
    resolved = documents[1].resolve({"rows": "abc"})
    assert resolved["dataset"] == "abc"
    assert resolved["client"] == {"extraOptions": {"from": "x-abc"}}


def test_the_same_document_has_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TWO)
    first, again = read([path])[0], read([path])[0]
    assert first.key({"a": 1, "b": 2}) == again.key({"b": 2, "a": 1})
    assert first.key({"a": 1}) != first.key({"a": 2})


REFUSED = {
    "a Kubernetes manifest": ("apiVersion: dyff.io/v1alpha1\nkind: Model\n", "kubectl apply -f takes it"),
    "no kind": ("account: acme\n", "`kind:`"),
    "another kind": ("kind: Spoon\n", "document 1: Spoon: there is no such kind; there are datasets"),
    "no mapping": ("- a\n", "should be a mapping"),
    "no YAML": ("a: [\n", "is not YAML: line 2, column 1: while parsing a flow node did not find"),
    "a control character": ("a: \x01\n", "is not YAML: unacceptable character"),
    "a list that holds itself": (
        "kind: Report\na: &a [*a]\n",
        "is not YAML: the alias *a stands inside what it names",
    ),
    "too deep": ("[" * 1_000, "at most 128 levels of lists and objects"),
    "what JSON has no form for": ("kind: Report\na: !!binary aGk=\n", "is not YAML: it holds a bytes"),
    "a name of several": ("kind: Report\n? [a, b]\n: c\n", "is not YAML"),
    "a date that is none": ("kind: Report\na: 2030-13-01\n", "is not YAML: month must be"),
    "nothing": ("# nothing\n---\n", "has no document"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read([path])
    assert said in str(caught.value)


def test_dates_and_numbers_as_names_are_texts_as_the_api_gets_them(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Report\nlabels: {1: 2030-01-02, a: 2030-01-02T03:04:05}\n")
    (document,) = read([tmp_path / "a.yaml"])
    assert document.fields == {"labels": {"1": "2030-01-02", "a": "2030-01-02T03:04:05"}}
    assert len(document.key(document.fields)) == 64


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(b"kind: Report\nname: \xff\n")
    with pytest.raises(UsageError, match=r"wrong.yaml: is not text in UTF-8: invalid start byte at byte 19"):
        read([path])


def test_a_reference_to_nothing_says_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TWO)
    with pytest.raises(
        UsageError, match=r"\$\(rows\): no earlier document has `as: rows`; earlier ones: none"
    ):
        read([path])[1].resolve({})


def test_references_are_checked_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TWO)
    check_references(read([path]))
    path.write_text(TWO.replace("as: rows", "as: other"))
    with pytest.raises(
        UsageError, match=r"document 2: \$\(rows\): no earlier document .*; earlier ones: other"
    ):
        check_references(read([path]))


def test_keywords_of_a_pipeline_and_variables_of_a_runner_are_left_to_them(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(OWN)
    documents = read([path])
    check_references(documents)
    pipeline, service = (document.resolve({"rows": "abc"}) for document in documents[1:])
    assert pipeline["nodes"]["ask"]["request"] == {"dataset": "abc", "inferenceService": "$(service)"}
    assert service["runner"] == {"args": ["--host", "$(POD_IP)"]}


@pytest.mark.parametrize("missing", ["nothing.yaml", "empty"])
def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path, missing: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="--filename"):
        read([tmp_path / missing])


@pytest.mark.parametrize("word", ["evaluation", "Evaluations", "eval", "EVALUATION"])
def test_a_kind_is_understood_in_every_form(word: str) -> None:
    assert collection_name(word) == "evaluations"


LIST = """
apiVersion: v1
kind: List
items:
- kind: Dataset
  as: rows
  account: acme
- kind: DatasetList
  items:
  - {kind: Evaluation, account: acme, dataset: $(rows)}
---
kind: Report
account: acme
"""


def test_the_items_of_a_list_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(LIST)
    documents = read([path])
    assert [document.collection for document in documents] == ["datasets", "evaluations", "reports"]
    assert documents[1].resolve({"rows": "abc"}) == {"account": "acme", "dataset": "abc"}
    assert documents[1].where == f"{path}, document 1, item 2, item 1"
    path.write_text("kind: List\nitems: []\n")
    assert read([path]) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: List\n", "document 1: items: should be a list"),
        ("kind: List\nitems: {a: 1}\n", "document 1: items: should be a list"),
        ("kind: List\nitems: [{kind: Spoon}]\n", "there is no such kind"),
        ("kind: List\nitems: [4]\n", "document 1, item 1: should be a mapping"),
        ("{kind: List, items: [" * 12 + "]}" * 12, "more than 10 lists"),
    ],
    ids=["no items", "a mapping of items", "an item of another kind", "an item that is a number", "too deep"],
)
def test_a_list_that_is_none_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read([path])
