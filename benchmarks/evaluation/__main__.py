"""`python -m benchmarks.evaluation [--quick] [--without-peers] [--only GROUP …]`: Markdown, then one JSON line.

The server runs in its own process on one core, every client is pinned to the other where there are two. All figures
are of this run: figures that it did not measure stay empty.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.evaluation import scoring, tables
from benchmarks.evaluation.measured import Result, run
from benchmarks.evaluation.plan import GROUPS, QUICK_ROWS, REPEATS, ROWS, Line, lines
from benchmarks.evaluation.tools import ALL


def best(line: Line, folder: Path) -> Result:
    """Return the run with the least wall time of a few; its memory is the most of them all."""
    prompts = folder / str(line.load.rows)
    if not prompts.exists():
        writing = [sys.executable, "-m", "benchmarks.evaluation.prompts", str(prompts), str(line.load.rows)]
        subprocess.run(writing, check=True)
    results = [run(ALL[line.tool](prompts, line.load), line.load) for _ in range(line.repeats)]
    ended = [result for result in results if result.exit == 0] or results
    return min(ended, key=lambda result: result.wall)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation")
    parser.add_argument("--quick", action="store_true", help="few rows, once: whether it works, no figures")
    parser.add_argument("--without-peers", action="store_true", help="no Inspect AI, no lm-eval")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP")
    arguments = parser.parse_args()
    planned = lines(quick=arguments.quick, peers=True)
    results: dict[Line, Result] = {}
    scored = None
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        selected = lines(quick=arguments.quick, peers=not arguments.without_peers)
        for line in (line for line in selected if line.group in arguments.only):
            results[line] = best(line, folder)
            line_text = f"{results[line].wall:.2f} s, exit {results[line].exit}"
            print(f"{line.name}: {line_text}", file=sys.stderr, flush=True)
            if results[line].exit:
                log = folder / str(line.load.rows) / "command.log"
                print(log.read_text()[-600:] if log.exists() else "", file=sys.stderr, flush=True)
        if "scoring" in arguments.only:
            rows = QUICK_ROWS if arguments.quick else ROWS
            for size in (scoring.FEW, rows):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.evaluation.prompts",
                    str(folder / "scoring"),
                    str(size),
                ]
                subprocess.run(command, check=True)
            scored = scoring.measure(folder / "scoring", rows, 1 if arguments.quick else REPEATS)
    print(tables.aims(results, scored))
    for group in GROUPS:
        print(tables.group(group, planned, results) if group != "scoring" else tables.scoring(scored))
    figures = [asdict(line) | tables.figures(result) for line, result in results.items()]
    print(json.dumps({"lines": figures, "scoring": None if scored is None else asdict(scored)}))


if __name__ == "__main__":
    main()
