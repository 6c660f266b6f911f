"""Forms of answers as Math-Verify reads them: `python forms_by_math_verify.py FORMS OUT`, in its own environment."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from math_verify import StringExtractionConfig, parse, verify


def read(form: Any) -> Any:
    if form["kind"] == "numbers":
        said, target = parse(form["said"]), parse(str(form["target"]))
    else:
        config = [StringExtractionConfig(strings=tuple("ABCD"), lowercase=False)]
        said, target = parse(form["said"], config), parse(str(form["target"]), config)
    return {"read": str(said[0]) if said else "", "right": bool(target) and bool(verify(target, said))}


def main() -> None:
    logging.disable(logging.ERROR)
    forms = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    readings_by_column = {"Math-Verify": {form["key"]: read(form) for form in forms}}
    Path(sys.argv[2]).write_text(json.dumps(readings_by_column), encoding="utf-8")


if __name__ == "__main__":
    main()
