"""`python -m tests.coverage [DRAWS]` measures every interval and writes the table into docs/statistics.md."""

import sys
from pathlib import Path

from tests.coverage.measure import Held, measure
from tests.coverage.simulations import SIMULATIONS

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
BEGIN, END = "<!-- coverage: python -m tests.coverage -->\n", "<!-- end of coverage -->\n"


def row(simulation: str, drawn: int) -> str:
    """The least and the mean coverage of a simulation's cases, and where it is least."""
    cases = [measure(simulation, case, drawn) for case in SIMULATIONS[simulation].cases]
    least: Held = min(cases, key=lambda held: held.coverage)
    mean = sum(held.coverage for held in cases) / len(cases)
    printed = sum(held.printed for held in cases) / len(cases)
    title = SIMULATIONS[simulation].title
    print(title, least, flush=True)
    return f"| {title} | {len(cases)} | {least.coverage:.1%} ({least.case}) | {mean:.1%} | {printed:.0%} |\n"


def main(drawn: int) -> None:
    """Writes the table between its marks."""
    rows = "".join(row(simulation, drawn) for simulation in SIMULATIONS)
    head = "| number | cases | least coverage (where) | mean | intervals printed |\n|---|---|---|---|---|\n"
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(
        f"{before}{BEGIN}\nOf {drawn:,} evaluations each:\n\n{head}{rows}\n{END}{rest.split(END)[1]}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
