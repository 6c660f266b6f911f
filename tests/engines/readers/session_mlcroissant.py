"""Reads records as mlcroissant does: `python session_mlcroissant.py DOCUMENT`, in an environment of its own.

Prints them as JSON; texts, which it gives as bytes, as texts.
"""

import json
import sys
from typing import Any

import mlcroissant


def shown(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: shown(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shown(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


dataset = mlcroissant.Dataset(jsonld=sys.argv[1])
assert not dataset.metadata.ctx.issues.errors, dataset.metadata.ctx.issues.errors
print(json.dumps([shown(record) for record in dataset.records("rows")], default=str))
