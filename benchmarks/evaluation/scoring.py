"""Benchmark of `steelyard eval score`: a run's rows scored again, beside the same with hardly any rows."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evaluation.measured import Command, Load, run, watch
from benchmarks.evaluation.tools import COMMAND, NO_KEY, OURS, STEELYARD

FEW = 10


@dataclass(frozen=True)
class Scoring:
    """Seconds of wall time, each the best of a few."""

    rows: int
    command: float
    few: float
    """The same command for FEW rows: what it costs before any row is scored."""
    interpreter: float
    """A Python that does nothing."""

    @property
    def beyond_start(self) -> float:
        return self.command - self.few

    @property
    def beyond_interpreter(self) -> float:
        return self.command - self.interpreter


def measure(folder: Path, rows: int, repeats: int) -> Scoring:
    many, few = (_scored(folder, count, repeats) for count in (rows, FEW))
    nothing = Command([sys.executable, "-c", ""], folder=folder)
    return Scoring(rows, many, few, min(float(watch(nothing)[0]["wall"]) for _ in range(repeats)))


def _scored(folder: Path, rows: int, repeats: int) -> float:
    load = Load(rows, 64, 0)
    made = run(OURS[COMMAND](folder, load), load)
    if made.exit:
        raise SystemExit(f"steelyard eval run exited {made.exit}: see {folder}/command.log")
    kept = folder / f"scored-{rows}"
    shutil.move(folder / "run", kept)
    again = [STEELYARD, "eval", "score", str(kept), "--rubric", "exact-match"]
    watched = [watch(Command(again, NO_KEY, folder))[0] for _ in range(repeats)]
    if any(measurement["exit"] for measurement in watched):
        raise SystemExit(f"steelyard eval score failed: see {folder}/command.log")
    shutil.rmtree(kept)
    return min(float(measurement["wall"]) for measurement in watched)
