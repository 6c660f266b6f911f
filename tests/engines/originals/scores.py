"""Our scores beside the originals', on the same rows, beside what docs/rubrics.md says of both.

`python -m tests.engines.originals.scores` writes scores.json anew, from which the page is written.
"""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from tests.engines.originals.environments import by_original
from tests.engines.originals.scorer_rows import rows
from tests.engines.originals.scores_by_us import SCORES

DATA = Path(__file__).parent / "scores.json"
NEAR = 1e-9  # relative; the same formula in another order of additions
Beside = dict[str, dict[str, Any]]


def beside(theirs: dict[str, list[float]], ours: dict[str, list[float]]) -> Beside:
    """Counts the numbers of each name, those that differ, and the largest difference."""
    if set(theirs) != set(ours):
        raise ValueError(f"names of one side alone: {sorted(set(theirs) ^ set(ours))}")
    compared = {}
    for name in sorted(theirs):
        pairs = list(zip(theirs[name], ours[name], strict=True))
        gaps = [abs(a - b) for a, b in pairs if not math.isclose(a, b, rel_tol=NEAR, abs_tol=NEAR)]
        compared[name] = {
            "numbers": len(pairs),
            "differ": len(gaps),
            "largest": round(max(gaps, default=0.0), 6),
        }
    return compared


def computed(tool: str, folder: Path) -> Beside:
    drawn = rows()
    return beside(by_original(tool, f"scores_by_{tool}.py", drawn, folder), SCORES[tool](drawn))


def compare(tool: str, folder: Path) -> int:
    """The number of names that differ from the committed table; each is printed."""
    known, compared = json.loads(DATA.read_text(encoding="utf-8"))[tool], computed(tool, folder)
    wrong = [name for name in sorted(compared | known) if compared.get(name) != known.get(name)]
    numbers = sum(row["numbers"] for row in compared.values())
    differ = sum(row["differ"] for row in compared.values())
    print(f"{tool}: {numbers} numbers, {differ} differ from ours, {len(wrong)} names not as the table says")
    for name in wrong:
        print(f"  {name}: {compared.get(name)}, in the table {known.get(name)}")
    return len(wrong)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="steelyard-scores-") as folder:
        compared = {tool: computed(tool, Path(folder)) for tool in SCORES}
    DATA.write_text(json.dumps(compared, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
