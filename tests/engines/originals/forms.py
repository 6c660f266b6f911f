"""Compares the committed readings of forms of answers with those that the other tools compute.

`python -m tests.engines.originals.forms` writes tests/answers/originals.json anew.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.answers.forms import FOLDER, forms, originals
from tests.engines.originals.environments import by_original

TOOLS = ("lm_eval", "math_verify", "inspect_ai")
DATA = FOLDER / "originals.json"


def rows() -> list[dict[str, Any]]:
    return [
        {
            "key": form.key,
            "kind": form.kind,
            "said": form.said,
            "target": form.target,
            "options": form.options,
        }
        for form in forms()
    ]


def computed(tool: str, folder: Path) -> dict[str, Any]:
    """The columns of one tool."""
    columns: dict[str, Any] = by_original(tool, f"forms_by_{tool}.py", rows(), folder)
    return columns


def compare(tool: str, folder: Path) -> int:
    """The number of readings that are not the committed ones; each is printed."""
    known, wrong = originals(), 0
    for name, readings in computed(tool, folder).items():
        committed = known.get(name, {})
        changed = [key for key in sorted(readings | committed) if readings.get(key) != committed.get(key)]
        print(f"{name}: {len(readings)} forms, {len(changed)} read differently from the table")
        for key in changed[:20]:
            print(f"  {key!r}: {readings.get(key)}, in the table {committed.get(key)}")
        wrong += len(changed)
    return wrong


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="steelyard-forms-") as folder:
        readings_by_column = {
            name: readings for tool in TOOLS for name, readings in computed(tool, Path(folder)).items()
        }
    DATA.write_text(
        json.dumps(readings_by_column, ensure_ascii=True, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
