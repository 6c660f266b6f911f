"""Writes the files of deploy/ that have another source: the chart's rights, values, their schema and its page, and the
chart's objects for those without Helm.

`make verify` runs it, and fails where a file differs. Without the program helm, which the tests of the chart build, the
objects are left as they are; these tests compare them.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from deploy import without_helm
from deploy.rights import RIGHTS
from deploy.values import Values
from tests.engines.build import built_helm

DEPLOY = Path(__file__).parent
CHART = DEPLOY / "chart"
CRDS = CHART / "files" / "crds"
OBJECTS = "kustomize/steelyard.yaml"
HEAD = "# Made by `python -m deploy.generate`; edit its sources.\n"
WIDTH = 116


def rights() -> str:
    rules = {name: [right.rule() for right in members] for name, members in RIGHTS.items()}
    return HEAD + yaml.safe_dump(rules, sort_keys=False, width=WIDTH, default_flow_style=None)


def values() -> str:
    return HEAD + "\n".join(_yaml(Values(), "")) + "\n"


def _yaml(model: BaseModel, indent: str) -> Iterator[str]:
    """Yield the lines of a model's defaults, each after its description."""
    for field, info in type(model).model_fields.items():
        words = textwrap.wrap(info.description or "", WIDTH - len(indent) - 2, break_on_hyphens=False)
        yield from (f"{indent}# {line}" for line in words)
        name, value = info.alias or field, getattr(model, field)
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _yaml(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {json.dumps(value)}"


def schema() -> str:
    whole: dict[str, Any] = Values.model_json_schema(by_alias=True)
    whole = {"$schema": "http://json-schema.org/draft-07/schema#", **whole}
    return json.dumps(whole, indent=1) + "\n"


def page() -> str:
    """Return the chart's page: its text, and a row for each value."""
    text = (CHART / "files" / "README.md.in").read_text()
    rows = "\n".join(f"| `{name}` | {default} | {words} |" for name, default, words in _rows(Values(), ""))
    return text.replace("<!-- values -->", f"| value | default | meaning |\n|---|---|---|\n{rows}")


def _rows(model: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    for field, info in type(model).model_fields.items():
        name, value = f"{prefix}{info.alias or field}", getattr(model, field)
        if isinstance(value, BaseModel):
            yield name, "", info.description or ""
            yield from _rows(value, f"{name}.")
        else:
            default = "" if value in ("", None, [], {}) else f"`{json.dumps(value)}`"
            yield name, default, info.description or ""


def files() -> dict[str, str]:
    """Return the content of each generated file that needs no Helm, by its path in deploy/."""
    return {
        "chart/files/rights.yaml": rights(),
        "chart/values.yaml": values(),
        "chart/values.schema.json": schema(),
        "chart/README.md": page(),
        "chart/files/crds/Kustomization": HEAD + without_helm.definitions(CRDS),
    }


def objects(helm: Path) -> str:
    """Return the content of OBJECTS."""
    return HEAD + without_helm.objects(helm, CHART)


def main() -> None:
    for name, text in files().items():
        (DEPLOY / name).write_text(text)
    # After the files of the chart, which Helm reads.
    if helm := built_helm():
        (DEPLOY / OBJECTS).write_text(objects(helm))
    else:
        print(f"deploy/{OBJECTS}: left as it is, because the program helm is not built here")


if __name__ == "__main__":
    main()
