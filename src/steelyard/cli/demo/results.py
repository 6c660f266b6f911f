"""The demo's results in sentences, from its audits' files: how many answers were right, and how two models compare."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard_evaluation.report.wording import count_noun, format_points, small_p


def result_lines(audits: Sequence[Path]) -> list[str]:
    """Return the result of each audit's folder, earliest first, and the comparison of the last with its baseline."""
    lines = []
    contents = [json.loads((folder / "audit.json").read_text()) for folder in audits]
    for content in contents:
        lines += [f"{content['system']['name']}: {needed['headline']}" for needed in content["requirements"]]
    last = contents[-1]
    if last["baseline"] is not None:
        names = last["system"]["name"], last["baseline"]["system"]["name"]
        lines += [_comparison(*names, needed["comparison"]) for needed in last["requirements"]]
    return lines


def _comparison(system: str, baseline: str, numbers: Mapping[str, Any]) -> str:
    if not numbers["comparable"]:
        return f"{system} cannot be compared with {baseline}: {numbers['because']}"
    difference = numbers["difference"]
    low, high = difference["low"], difference["high"]
    interval = (
        "no interval"
        if None in {low, high}
        else f"95 % interval {format_points(low)} to {format_points(high)}"
    )
    p = small_p(numbers["p"])
    return (
        f"{system} compared with {baseline} on the same {count_noun(numbers['questions'], 'question')}: "
        f"{format_points(difference['value'])} percentage points ({interval}), "
        f"p {p.replace('<', '< ') if p.startswith('<') else f'= {p}'} by {numbers['test']}."
    )
