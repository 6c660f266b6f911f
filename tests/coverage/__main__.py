"""`python -m tests.coverage [DRAWS [NUMBER ...]]` measures intervals and writes the table into docs/statistics.md."""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.coverage.measure import FEWEST_INTERVALS, SimulationCase, measure_closely
from tests.coverage.table import SIMULATIONS

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
BEGIN, END = "<!-- coverage: python -m tests.coverage -->\n", "<!-- end of coverage -->\n"
COLUMNS = 6
HEAD = (
    "| number | cases | evaluations each | least coverage (where) | mean | intervals printed |\n"
    "|---|---|---|---|---|---|\n"
)


def cases_of(simulation: str, drawn: int) -> list[SimulationCase]:
    return [measure_closely(simulation, case, drawn) for case in SIMULATIONS[simulation].cases]


def row(simulation: str, cases: list[SimulationCase]) -> str:
    """The least and the mean coverage of a simulation's cases, and where it is least."""
    least = min(cases, key=lambda held: held.coverage)
    shown = [held.coverage for held in cases if held.intervals >= FEWEST_INTERVALS]
    mean = f"{sum(shown) / len(shown):.1%}" if shown else "–"
    printed = sum(held.printed for held in cases) / len(cases)
    title = SIMULATIONS[simulation].title
    draws = f"{min(held.drawn for held in cases):,} to {max(held.drawn for held in cases):,}"
    where = f"{least.coverage:.1%} ± {1.96 * least.error:.1%} ({least.case})"
    print(title, least, flush=True)
    return f"| {title} | {len(cases)} | {draws} | {where} | {mean} | {printed:.0%} |\n"


def main(drawn: int, only: list[str]) -> None:
    """Writes the table between its marks, row by row; a simulation that is not tried now keeps its row."""
    before, rest = PAGE.read_text().split(BEGIN)
    known, after = rest.split(END)
    rows = {
        line.split(" | ")[0]: f"{line}\n" for line in known.splitlines() if line.count(" | ") == COLUMNS - 1
    }
    with ProcessPoolExecutor() as processes:
        several = processes.map(cases_of, only, [drawn] * len(only))
        for simulation, cases in zip(only, several, strict=True):
            rows[f"| {SIMULATIONS[simulation].title}"] = row(simulation, cases)
            titles = (f"| {made.title}" for made in SIMULATIONS.values())
            table = HEAD + "".join(rows[title] for title in titles if title in rows)
            PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2:] or list(SIMULATIONS))
