"""Checks of a page without its other files: all that one file can show, and what it cannot."""

import base64
import hashlib
import html
import re
from collections.abc import Iterator
from importlib.resources import files

import orjson

from steelyard_common import whole_files
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge
from steelyard_evaluation.report.evidence.files import Check, fault
from steelyard_evaluation.report.page.page import FORMAT, MOST_EVIDENCE, numbers_inside
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.wording import count

PAGES = {"report": "report.html", "audit": "index.html"}
# An element without an end holds the rest: the page would be read again from each further one.
_SCRIPT = re.compile(rb"<script>(.*?)(?:</script>|\Z)", re.S)
_ANY_SCRIPT = re.compile(rb"<script\b", re.I)
_TITLE = re.compile(rb"<title>(.*?)(?:</title>|\Z)", re.S)
_TITLES = ("", "Evaluation report: ", "Audit: ")
"""Words before the headline in the titles of pages."""
_DATA = re.compile(rb'<script type="application/json".*?(?:</script>|\Z)', re.S)
_POLICY = re.compile(
    rb'\A<!DOCTYPE html>\s*<html[^<>]*>\s*<head>\s*<meta charset="utf-8">\s*'
    rb'<meta http-equiv="Content-Security-Policy" content="([^"]*)">'
)
"""The policy at the very beginning of a page: one in a comment, or behind other elements, would bind nothing."""


def check_lone_page(page: bytes, kind: str) -> Iterator[Check]:
    """Yield the checks of a page without its files; the first says that none of them proves the numbers right."""
    yield Check(
        "this page is alone, without its signed attestation: a careful change of its numbers is not noticed",
        "unchecked",
    )
    numbers = parse_json(numbers_inside(page, kind))
    known = numbers if isinstance(numbers, dict) else {}
    yield Check(
        "not here: everything that the numbers were made from: no digest, row or number can be checked. "
        + location_sentence(known, kind),
        "unchecked",
    )
    if not known:
        yield fault(f"the page: has no numbers of {'an' if kind == 'audit' else 'a'} {kind} in it")
        return
    leaves = sum(1 for _ in _leaves(numbers))
    yield Check(
        f"the page: holds {count(leaves)} numbers and words as JSON, format {numbers.get('schemaVersion')}"
    )
    yield from (
        _check_format(numbers),
        *check_scripts(page),
        *check_shown(page, numbers, _evidence(numbers)),
        *_check_rows(numbers),
    )


def location_sentence(numbers: JsonValue, kind: str = "report") -> str:
    """Return a sentence that says where the other files are: in the folder of the run, or on the platform."""
    names = numbers.get("names") if kind == "report" else numbers
    identity = names.get(kind) if isinstance(names, dict) else None
    if kind == "report" and not identity:
        return "They lie in the folder of the run: name it with --results DIR"
    return f"Download it with: steelyard {kind} download {identity or 'ID'} --evidence DIR"


def check_page_numbers(page: bytes, raw: bytes, kind: str, name: str) -> Check:
    """Compare the JSON inside the page with the file next to it."""
    inside = numbers_inside(page, kind)
    if inside is not None and parse_json(inside) == parse_json(raw):
        return Check(f"{PAGES[kind]}: holds the numbers of {name}")
    return fault(f"{PAGES[kind]}: does not hold the numbers of {name}")


def parse_json(data: bytes | None) -> JsonValue:
    """Return the value; None for a file that is not here, or not JSON. Raises TooLarge."""
    try:
        return None if data is None else whole_files.parse_json(data)
    except orjson.JSONDecodeError:
        return None
    except TooLarge as error:
        raise TooLarge(f"the numbers: the JSON {error}") from error


def _check_format(numbers: JsonValue) -> Check:
    if numbers.get("schemaVersion") == FORMAT:
        return Check(f"the page: is of the format that this version writes ({FORMAT})")
    return fault(
        f"the page: is of the format {to_text(numbers.get('schemaVersion'))}; this version knows {FORMAT}"
    )


def check_scripts(page: bytes) -> Iterator[Check]:
    """Check that a page runs no script but the one of this version of Steelyard, and allows no other.

    A person who gets a page by mail opens it in a browser: a strange script could show other numbers than the page
    holds.
    """
    known = files("steelyard_evaluation.report.page").joinpath("templates/rows.js").read_bytes()
    scripts = _SCRIPT.findall(page)
    strange = [script for script in scripts if script.strip() != known.strip()]
    # Any spelling of the element: browsers run `<SCRIPT type=module>` as well.
    marked = len(_ANY_SCRIPT.findall(page)) - len(scripts)
    policy = _POLICY.match(page)
    allowed = policy[1].decode(errors="replace") if policy else ""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    # The whole policy, not its parts: a directive more could allow what the others forbid, such as event handlers.
    expected = "; ".join(
        [
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            *([f"script-src {' '.join(hashes)}"] if hashes else []),
        ]
    )
    if strange:
        yield fault("the page: has a script that is not Steelyard's")
    elif allowed != expected:
        yield fault("the page: its Content-Security-Policy is not the one that Steelyard writes")
    elif marked > page.count(b'<script type="application/json"'):
        yield fault("the page: has a script element of another kind than Steelyard writes")
    else:
        yield Check("the page: runs no script but Steelyard's own, and may load nothing")


def _evidence(numbers: JsonValue) -> JsonValue:
    return numbers.get("evidence") or [
        entry for requirement in numbers.get("requirements", ()) for entry in requirement.get("evidence", ())
    ]


def check_shown(page: bytes, numbers: JsonValue, evidence: JsonValue) -> Iterator[Check]:
    """Compare what a person reads with the JSON inside: the headline, also in the window's title, and every digest."""
    # Without the JSON inside, which would contain every headline and digest that is looked for.
    text = html.unescape(_DATA.sub(b"", page).decode(errors="replace"))
    headline = str(numbers.get("headline"))
    title = _TITLE.search(page)
    shown = html.unescape(title[1].decode(errors="replace")) if title else ""
    yield (
        Check(f"the page: shows the headline of its numbers: {headline}")
        if f"<h1>{headline}</h1>" in text and shown in {f"{kind}{headline}" for kind in _TITLES}
        else fault(f"the page: does not show the headline of its numbers: {headline}")
    )
    digests = [str(entry.get("sha256")) for entry in evidence]
    missing = sum(digest not in text for digest in digests[:MOST_EVIDENCE])
    yield (
        fault(f"the page: {count(missing)} digests of its numbers are not shown")
        if missing
        else Check(f"the page: shows the digests of its numbers ({count(len(digests))} files)")
    )


def _check_rows(numbers: JsonValue) -> Iterator[Check]:
    """Check that counts of rows add up."""
    parts = [numbers] if "rows" in numbers else numbers.get("requirements", [])
    for part in parts:
        rows = part.get("rows") or {}
        if not {"total", "present", "missing"} <= rows.keys():
            continue
        if rows["total"] != rows["present"] + rows["missing"]:
            yield fault(
                f"the page: {rows['present']} rows that are there and {rows['missing']} missing "
                f"are not {rows['total']}"
            )


def _leaves(value: JsonValue) -> Iterator[JsonValue]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        yield value
        return
    for item in inner:
        yield from _leaves(item)
