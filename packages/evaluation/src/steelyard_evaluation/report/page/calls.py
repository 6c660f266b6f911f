"""The calls behind a report: how the answers ended, and who gave them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard_evaluation.engine.endings import CUT_SHORT, WHOLE
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.report.page.row_scan import Tokens
from steelyard_evaluation.report.wording import count

MOST_ADDRESSES = 20
"""Addresses that the page lists: replicas of a cluster have many. report.json lists all."""
_ENDED = {"stop": "Ended normally", "length": "Cut off at the token limit"}
CUT = "cut short by the server, and scored as they are: ask these rows again"
UNKNOWN = "an unknown reason: it is not known whether the answer is complete"


def call_lines(manifest: Manifest, tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Lines of the page."""
    for reason, answers in endings(manifest, tokens):
        label = _ENDED.get(reason, f"Ended by {reason}")
        yield label, f"{count(answers)} answers{_remark(reason.lower())}"
    endpoints = sorted(manifest.asked.items(), key=lambda item: (-item[1], item[0]))
    for address, rows in endpoints[:MOST_ADDRESSES]:
        yield f"Asked at {address}", f"{count(rows)} rows"
    if len(endpoints) > MOST_ADDRESSES:
        yield "Asked elsewhere", f"{count(sum(rows for _, rows in endpoints[MOST_ADDRESSES:]))} rows"


def _remark(reason: str) -> str:
    if reason in WHOLE:
        return ""
    return f" ({CUT if reason in CUT_SHORT else UNKNOWN})"


def spending_lines(spending: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Lines of the page: who used how many tokens at what cost, and the total of the model and its judges."""
    if not spending:
        return
    for account in spending["accounts"]:
        name = account["name"]
        who = f"the {name}" if name in {"model", "judge"} else name
        lost = account["lostCalls"]
        estimated = (
            f"; {count(account['lostTokens'])} of them estimated: {count(lost)} calls lost" if lost else ""
        )
        yield (
            f"Used by {who}, {account['model']}",
            f"{_amount(account)} in {count(account['calls'])} calls{estimated}",
        )
    yield "Used in total", _amount(spending)


def _amount(account: Mapping[str, Any]) -> str:
    cost = "" if account["cost"] is None else f", {account['cost']:.4g} spent"
    return f"{count(account['tokens'])} tokens{cost}"


def endings(manifest: Manifest, tokens: Tokens) -> list[tuple[str, int]]:
    """Answers by their reason of ending, the most frequent first.

    The output holds the reasons where its schema has a column for them; unknown ones are counted without it, too.
    """
    # The union takes the larger count: an ending that both name is one answer, not two.
    reasons = Counter(manifest.unknownEndings) | tokens.finished
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def calls_numbers(manifest: Manifest) -> Mapping[str, Any]:
    """The part of report.json."""
    return {"asked": manifest.asked, "unknownEndings": manifest.unknownEndings}
