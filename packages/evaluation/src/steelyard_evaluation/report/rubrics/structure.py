"""The rubric `structure.JsonSchema`: the answer is JSON, and valid by a JSON Schema.

The schema comes with the rubric (a file, or the text itself) or from a column of the dataset.
"""

import dataclasses
import functools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pyarrow as pa

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Results, Table
from steelyard_evaluation.report.rubrics.rows import FIELD, NoTarget, answer_text, right_or_wrong, schema
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores
from steelyard_schema.columns import column_text, value

_OPENING = re.compile(r"(?<![`~])(`{3,}|~{3,})[^\n`]*$")
_FAULT = 500  # characters of a fault that are kept
_SCHEMA = schema(("fault", pa.string()))


class BadSchema(ValueError):
    """The text is not JSON Schema that can be used."""


@dataclasses.dataclass(frozen=True)
class JsonSchema:
    """The answer is valid. `schema` is a file's path or, where it begins with `{`, the schema itself; without it
    each row has its own in `column`. JSON may stand in a fenced code block, unless `fenced` is false.
    """

    schema: str = ""
    column: str = "schema|json_schema"
    field: str = FIELD
    fenced: bool = True
    validator: Any = dataclasses.field(default=None, init=False, repr=False, compare=False)
    """Validator made from `schema` once: a file that changes meanwhile changes no score."""

    def __post_init__(self) -> None:
        if self.schema:
            object.__setattr__(self, "validator", _compile(_read_text(self.schema)))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads; a report keeps a copy of each, with its digest."""
        return (self.schema,) if self.schema and not self.schema.lstrip().startswith("{") else ()

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.schema else (self.column,)

    @property
    def scores(self) -> pa.Schema:
        return _SCHEMA

    def score(self, answer: Answer) -> Json:
        name, validator = self._validator(answer)
        said = answer_text(answer, self.field)
        fault = "no answer" if said is None else find_fault(said, validator, fenced=self.fenced)
        return right_or_wrong(fault is None, (name,), said) | {"fault": fault}

    def _validator(self, answer: Answer) -> tuple[str, Any]:
        if self.schema:
            return "valid", self.validator
        output = value(self.column, answer.row)
        if output is None:
            raise NoTarget(
                f"row {answer.index} of the dataset has no schema in the column {column_text(self.column)}"
            )
        text = output if isinstance(output, str) else orjson.dumps(output).decode()
        try:
            return "valid", _compile(text)
        except BadSchema as error:
            raise NoTarget(f"row {answer.index} of the dataset: {error}") from error

    def summarise(self, scores: pa.Table) -> Results:
        what = ScoreKind("valid_json", "Valid by the schema", note="JSON that the schema takes")
        results = summarise_scores(scores, what)
        return dataclasses.replace(results, tables=(*results.tables, *_faults(scores)))


def find_fault(said: str, validator: Any, *, fenced: bool) -> str | None:
    """Return the fault of the JSON in the answer; None where there is none."""
    document, value = _json_in(said, fenced=fenced)
    if not value:
        return "not JSON"
    error = next(iter(validator.iter_errors(document)), None)
    if error is None:
        return None
    place = "/".join(map(str, error.instance_path))
    return f"/{place}: {error.message}"[:_FAULT]


def _json_in(said: str, *, fenced: bool) -> tuple[Any, bool]:
    """Return the whole answer if it is JSON, else the first fenced block that is, and whether there is any."""
    blocks = [said] + (list_fenced_blocks(said) if fenced else [])
    for block in blocks:
        try:
            return _load(block), True
        except orjson.JSONDecodeError:
            continue
    return None, False


def list_fenced_blocks(text: str) -> list[str]:
    """Return the blocks between fences, a line at a time, so that no answer takes long. A fence may open
    behind other text; one that never closes holds the rest.
    """
    blocks: list[str] = []
    fence = ""
    inside: list[str] = []
    for line in text.split("\n"):
        if not fence:
            if opening := _OPENING.search(line):
                fence = opening[1]
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            blocks.append("\n".join(inside))
            fence, inside = "", []
        else:
            inside.append(line)
    return [*blocks, "\n".join(inside)] if fence else blocks


def _read_text(text: str) -> str:
    if text.lstrip().startswith("{"):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSchema(f"schema {text}: cannot be read: {error}") from error


def _load(text: str) -> Any:
    """Return the value of a JSON text. Raises orjson.JSONDecodeError, MemoryError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # orjson blames the text when it is memory that lacks, and a score or a refusal must not.
        if error.msg.startswith("Not enough memory"):
            raise MemoryError(error.msg) from error
        raise


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> Any:
    """Compile a schema. Raises BadSchema.

    References to other documents are refused: scoring never uses the network. No pattern of a schema takes long.
    """
    try:
        document = _load(text)
    except orjson.JSONDecodeError as error:
        raise BadSchema(f"the schema is not JSON: {error}") from error
    try:
        return jsonschema_rs.validator_for(document, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise BadSchema(f"the schema is not usable: {first}") from error


def _faults(scores: pa.Table) -> tuple[Table, ...]:
    counts = Counter(fault for fault in scores["fault"].to_pylist() if fault is not None).most_common()
    if not counts:
        return ()
    # Ties by text: a Counter's order is that of the rows, which two files of the same scores may differ in.
    counts.sort(key=lambda row: (-row[1], row[0]))
    title = "What was wrong" + ("" if len(counts) <= 15 else f" (the 15 most frequent of {len(counts)})")
    return (Table(title, ("Fault", "Answers"), tuple(counts[:15])),)
