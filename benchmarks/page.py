"""Writes what benchmarks print into docs/benchmarks.md, so that no figure there is typed.

A block of the page is between `<!-- bench NAME N -->` and `<!-- end -->`, and holds the paragraph or table N of what
`python -m benchmarks.NAME` printed; N is 0 for the line that says when, at which commit and at which load.
"""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- bench ([\w.]+) (\d+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def stamp(load: float) -> str:
    """Return the line that says when, and at which commit, a measurement was made."""
    described = ("git", "describe", "--always", "--dirty", "--exclude", "*")
    commit = subprocess.run(described, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return (
        f"Measured on {datetime.now(UTC).date()} at commit {commit}, load average {load:.1f} before it began."
    )


def paragraphs(output: str) -> list[str]:
    """Return the paragraphs and tables of an output; figures in JSON are for programs, and left out."""
    lines = [line for line in output.splitlines() if not is_json(line)]
    return [part.strip() for part in re.split(r"\n\s*\n", "\n".join(lines)) if part.strip()]


def is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return line.startswith(("{", "["))


def fill(page: str, name: str, parts: Sequence[str]) -> str:
    """Return the page with the blocks of one benchmark filled. Raises ValueError where a block has no such part."""

    def replace(block: re.Match[str]) -> str:
        if block[2] != name:
            return block[0]
        if int(block[3]) >= len(parts):
            raise ValueError(f"{name} printed {len(parts) - 1} parts, and the page shows number {block[3]}")
        return f"{block[1]}{parts[int(block[3])]}{block[4]}"

    return BLOCK.sub(replace, page)


def measure(name: str, command: Sequence[str]) -> bool:
    """Run a benchmark, show what it prints, and write it into the page; return whether it ended well."""
    begun = stamp(os.getloadavg()[0])
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        return False
    PAGE.write_text(fill(PAGE.read_text(), name, [begun, *paragraphs(done.stdout)]))
    return True
