"""Our rubrics beside the originals, each in an environment of its own: sacrebleu, rouge-score, scikit-learn, Inspect's
scorers, and the readings of lm-eval, Math-Verify and Inspect of two hundred forms of answers.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.originals import forms, scores
from tests.engines.originals.scores_by_us import SCORES


def run() -> int:
    """1 where anything is not as the committed tables say. An original that cannot be had is named; Missing where
    that is all of them.
    """
    wrong = 0
    missing: list[str] = []
    with tempfile.TemporaryDirectory(prefix="steelyard-originals-") as scratch:
        folder = Path(scratch)
        suites: dict[str, Callable[[], int]] = {
            **{f"forms by {tool}": partial(forms.compare, tool, folder) for tool in forms.TOOLS},
            **{f"scores by {tool}": partial(scores.compare, tool, folder) for tool in SCORES},
        }
        for name, compare in suites.items():
            try:
                wrong += compare()
            except Missing as reason:
                missing.append(f"{name}: {reason}")
                print(f"left out: {name}: {reason}")
    if len(missing) == len(suites):
        raise Missing("; ".join(missing))
    print(
        f"{len(suites) - len(missing)} comparisons, {len(missing)} left out, {wrong} differences from the tables"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run())
