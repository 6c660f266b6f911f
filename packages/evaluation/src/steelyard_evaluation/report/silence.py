"""Answers that say nothing: all of them empty, or all cut off. Such a run has numbers, and they are about no model.

The command line says so at the end of a run, and the report beside its first result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import batches
from steelyard_evaluation.report.rubrics.answer import answer_in, is_blank

_AT_A_LIMIT = pa.array(["length", "max_tokens", "model_length", "limit"])
_NOTHING = pa.array([""])
_OF_TOOLS = pa.array(["tool_calls", "function_call", "tool_use", "tool_call"])


@dataclass
class Silence:
    """Counts of the answers that say nothing, and of those that stop at a limit."""

    answers: int = 0
    empty: int = 0
    cut: int = 0

    def add(self, responses: Any) -> None:
        """Count the answers of some rows: a column of lists of structs."""
        kind = responses.type.value_type
        names = {kind.field(number).name for number in range(kind.num_fields)}
        answers = responses.flatten()
        self.answers += len(answers)
        reasons = pc.struct_field(answers, "finish_reason") if "finish_reason" in names else None
        if reasons is not None and pa.types.is_string(reasons.type):
            self.cut += _count(pc.is_in(reasons, value_set=_AT_A_LIMIT))
        texts = pc.struct_field(answers, "text") if "text" in names else None
        if texts is not None and pa.types.is_string(texts.type):
            blank = pc.is_in(pc.utf8_trim_whitespace(_without_thoughts(texts)), value_set=_NOTHING)
            # A call of a tool is an answer without text.
            if reasons is not None and pa.types.is_string(reasons.type):
                blank = pc.and_not(blank, pc.is_in(reasons, value_set=_OF_TOOLS))
            self.empty += _count(blank)

    @property
    def sentence(self) -> str | None:
        """Note for readers, to be known before any number; None where some answer is whole and says something."""
        if not self.answers:
            return None
        if self.empty == self.answers:
            cut = ", and cut off at its token limit" if self.cut == self.answers else ""
            return f"Every answer is empty{cut} ({self.answers:,} of {self.answers:,})."
        if self.cut == self.answers:
            return f"Every answer is cut off at its token limit ({self.cut:,} of {self.answers:,}): raise max_tokens."
        if self.empty + self.cut >= self.answers and self.empty:
            return f"No answer is whole: {self.empty:,} of {self.answers:,} are empty, the others cut off."
        return None


def measure_silence(paths: Iterable[Path]) -> Silence:
    """Count the answers in verified outputs. Blocking."""
    silence = Silence()
    for path in paths:
        for batch in batches(path, 65536, ["responses"]):
            silence.add(batch.column(0))
    return silence


def _without_thoughts(texts: Any) -> Any:
    texts = pc.fill_null(texts, "")
    if not pc.any(pc.match_substring_regex(texts, "(?i)think|thought")).as_py():
        return texts
    # Of other texts nothing is needed but whether they are empty.
    return pa.array(["" if is_blank(answer_in(text)) else "." for text in texts.to_pylist()], pa.string())


def _count(mask: Any) -> int:
    return pc.sum(mask).as_py() or 0
