"""Verdicts read from the run of a judge: one for each answer, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.patterns import Pattern, PatternTooMuch
from steelyard_evaluation.report.rubrics.answer import answer_in
from steelyard_evaluation.runs.folder import Run, RunFolder
from steelyard_evaluation.runs.judge.pairs import ParsedVerdict, merge_verdicts
from steelyard_evaluation.runs.judge.spec import JudgeSpec

_LOOKED_AT = 20_000  # characters from the end of what the judge said
_KEPT = 200
_FIELDS: dict[str, pa.DataType] = {
    "judge": pa.string(),
    "verdict": pa.string(),
    "score": pa.float64(),
    "reason": pa.string(),
    "error": pa.string(),
    "pairs": pa.int32(),
    "flips": pa.int32(),
}
VERDICT = pa.struct(list(pa.schema(_FIELDS)))
"""One judge's word on one answer: `verdict` and its worth `score`, or `error`; `reason` is all that it said.

Of pairs: how many were read in both orders, and of how many the verdict changed with the order.
"""


@dataclass(frozen=True)
class Verdicts:
    """One judge's verdicts, found by the row and replication of the answer."""

    name: str
    keys: npt.NDArray[np.int64]
    """Row and replication as one number, in order."""
    table: pa.Table
    replications: int

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def errors(self) -> int:
        return len(self.keys) - self.table["error"].null_count

    def select(self, indexes: npt.NDArray[np.int64], replications: npt.NDArray[np.int64]) -> "pa.StructArray":
        """The verdicts on these answers, in their order; null for what the judge was not asked."""
        positions = indexes * self.replications + replications
        places = np.searchsorted(self.keys, positions)
        nearest = np.minimum(places, len(self.keys) - 1)
        missing = self.keys[nearest] != positions
        places_or_null: Any = pa.array(nearest, pa.int64(), mask=missing)
        taken = self.table.take(places_or_null)
        columns: list[Any] = [taken[name].combine_chunks() for name in _FIELDS]
        return pa.StructArray.from_arrays(columns, fields=list(VERDICT), mask=pa.array(missing))


def read_verdicts(folder: RunFolder, run: Run, spec: JudgeSpec) -> Verdicts:
    """The verdicts of the finished run in `folder` on the answers of `run`."""
    judged = Run(folder)
    replications = run.request.replications
    errors = {(index, judged.replication(name)): error for (index, name), error in judged.row_errors.items()}
    parser = Parser(spec.with_defaults())
    said: dict[int, list[ParsedVerdict]] = {}
    for row in judged.rows():
        if row.responses is None:
            error = errors.get((row.index, row.replication), {})
            verdict = {"error": f"the judge gave no answer: {error.get('message', 'unknown')}"}
        else:
            verdict = parser(row.responses[0])
        key = row.row["index"] * replications + row.row["replication"]
        said.setdefault(key, []).append(ParsedVerdict(row.row.get("order") or 0, row.replication, verdict))
    keys = sorted(said)
    verdicts = [
        merge_verdicts(sorted(said[key], key=lambda one: (one.time, one.order)), spec.pairwise)
        for key in keys
    ]
    columns = {
        name: [spec.name if name == "judge" else verdict.get(name) for verdict in verdicts]
        for name in _FIELDS
    }
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in _FIELDS.items()})
    return Verdicts(spec.name, np.asarray(keys, dtype=np.int64), table, replications)


class Parser:
    """A parser from a judge's response to its verdict."""

    def __init__(self, spec: JudgeSpec) -> None:
        self._pattern = Pattern(spec.parse)
        self._grades = {name.casefold(): (name, float(worth)) for name, worth in spec.grades.items()}
        self._allowed = ", ".join(spec.grades)

    def __call__(self, response: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        text = response.get("text") or ""
        # A judge that thinks aloud weighs other verdicts before it gives its own.
        answer = answer_in(text)
        last = None
        try:
            # Only the end of a long answer is searched, where verdicts stand.
            for last in self._pattern.find(answer[-_LOOKED_AT:]):  # noqa: B007 - the last one counts
                pass
        except PatternTooMuch as error:
            return {"reason": text, "error": f"parse: {error}"}
        if last is None or last["verdict"] is None:
            return {"reason": text, "error": self._missing(text, response)}
        # Judges write **CORRECT** or `correct.` as often as the plain word.
        said = last["verdict"].strip().strip(".*_`\"'").casefold()
        if said not in self._grades:
            return {"reason": text, "error": f"the verdict {last['verdict']!r} is not one of {self._allowed}"}
        name, worth = self._grades[said]
        return {"verdict": name, "score": worth, "reason": text}

    def _missing(self, text: str, response: Mapping[str, JsonValue]) -> str:
        if response.get("finish_reason") == "length":
            return "there is no verdict: the judge's answer was cut off (raise its max_tokens)"
        shown = " ".join(text.split())
        return f"there is no verdict in: {shown[-_KEPT:] or 'nothing'}"
