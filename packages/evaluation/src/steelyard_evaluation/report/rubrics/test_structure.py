"""JSON in answers, valid by a schema or not, and why."""

import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics import BadRubricArgument, find_rubric
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.rows import NoTarget
from steelyard_evaluation.report.rubrics.structure import BadSchema, JsonSchema

SCHEMA = '{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}'


def scored(text: str | None, rubric: JsonSchema | None = None, **row: Any) -> Any:
    answer = Answer(7, "r", row, None if text is None else [{"text": text}])
    return (rubric or JsonSchema(schema=SCHEMA)).score(answer)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1}', None),
        ('\n {"a": 1, "b": []}\n', None),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', None),
        ('```\n{"a": 1}\n```', None),
        ('```python\nprint(1)\n```\n~~~json\n{"a": 1}\n~~~', None),
        ('Here: ```json\n{"a": 1}\n```', None),
        ('````md\n```json\n{}\n```\n````\n```\n{"a": 1}\n```', None),
        ('```json\n{"a": 1}', None),
        ('{"a": "1"}', '/a: "1" is not of type "integer"'),
        ("{}", '/: "a" is a required property'),
        ("[1]", '/: [1] is not of type "object"'),
        ("a: 1", "not JSON"),
        ('Sure! {"a": 1}', "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("", "not JSON"),
        (None, "no answer"),
    ],
)
def test_what_is_wrong_is_reported(text: str | None, fault: str | None) -> None:
    row = scored(text)
    assert row["fault"] == fault
    assert row["correct"] is (fault is None)


def test_fences_may_be_forbidden() -> None:
    rubric = JsonSchema(schema=SCHEMA, fenced=False)
    assert scored('```json\n{"a": 1}\n```', rubric)["fault"] == "not JSON"


def test_the_schema_is_a_file_or_a_column(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(SCHEMA)
    assert scored('{"a": 1}', JsonSchema(schema=str(tmp_path / "s.json")))["correct"]
    assert JsonSchema(schema=SCHEMA).columns == ()
    assert JsonSchema().columns == ("schema|json_schema",)
    assert scored('{"a": 1}', JsonSchema(), schema=SCHEMA)["correct"]
    assert scored("{}", JsonSchema(column="of"), of=orjson.loads(SCHEMA))["correct"] is False


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            {"schema": None},
            r"row 7 of the dataset has no schema in the column 'schema' \(nor 'json_schema'\)",
        ),
        ({"schema": "{"}, "row 7 of the dataset: the schema is not JSON"),
        ({"schema": '{"type": 3}'}, "row 7 of the dataset: the schema is not usable"),
    ],
)
def test_a_row_without_a_schema_is_named(row: Any, fault: str) -> None:
    with pytest.raises(NoTarget, match=fault):
        scored("{}", JsonSchema(), **row)


def test_a_schema_that_cannot_be_read_is_an_argument_fault() -> None:
    with pytest.raises(BadRubricArgument, match=r"json-schema|argument schema /none.json: cannot be read"):
        find_rubric("json-schema?schema=/none.json")


def test_scoring_makes_no_request_for_a_schema(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    for reference in ("http://127.0.0.1:9/s.json", (tmp_path / "s.json").as_uri()):
        with pytest.raises(BadSchema, match=r"not usable: .*Retrieval is disabled"):
            JsonSchema(schema=orjson.dumps({"$ref": reference}).decode())


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+$", r"^(a+)+\1$"])
def test_no_pattern_hangs(pattern: str) -> None:
    """A pattern with backreferences is given up after a number of steps, and not valid."""
    rubric = JsonSchema(schema=orjson.dumps({"type": "string", "pattern": pattern}).decode())
    start = time.process_time()
    assert scored(f'"{"a" * 2000}!"', rubric)["correct"] is False
    assert time.process_time() - start < 2


@pytest.mark.parametrize("piece", ["```x\n", "~~~\n", "```", "``` ", "[", '{"a":', "`", "`" * 999 + "x`"])
def test_no_answer_takes_long(piece: str) -> None:
    start = time.process_time()
    assert scored(piece * (200_000 // len(piece)))["fault"] is not None
    assert time.process_time() - start < 1


def test_faults_are_counted() -> None:
    rubric = JsonSchema(schema=SCHEMA)
    answers = [Answer(k, "r", {}, [{"text": text}]) for k, text in enumerate(["x", "y", "{}", '{"a": 1}'])]
    table = rubric.summarise(make_scores(rubric, answers)).tables[-1]
    assert table.rows == (("not JSON", 2), ('/: "a" is a required property', 1))


def test_memory_that_lacks_is_no_fault_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rubric = JsonSchema(schema=SCHEMA)

    def load(text: str) -> None:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", text, 0)

    monkeypatch.setattr(orjson, "loads", load)
    with pytest.raises(MemoryError):
        JsonSchema(schema='{"title": "compiled for the first time"}')
    with pytest.raises(MemoryError):
        scored('{"a": 1}', rubric)
