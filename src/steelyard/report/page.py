"""The report as one HTML file: no script runs, nothing is loaded, the same document gives the same bytes."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import orjson
from markupsafe import Markup

from steelyard.report.results import Figure, Results
from steelyard.report.templating import render

FORMAT = "0.1"
"""Of the page and of report.json. Rendering adds no other version, no host and no time."""
TILES = frozenset({"answered", "f1_macro", "ece", "brier"})


@dataclass(frozen=True)
class Failure:
    """A question that got a wrong answer: what was said (each wrong answer once), how often, how sure."""

    index: int
    label: str
    said: tuple[str, ...]
    wrong: int
    asked: int
    probability: float | None
    texts: tuple[tuple[str, str], ...]
    picture: Figure | None


@dataclass(frozen=True)
class Failures:
    """The questions shown, and a sentence that says how many there are and how these were chosen."""

    sentence: str
    total: int
    shown: tuple[Failure, ...]


@dataclass(frozen=True)
class Evidence:
    what: str
    path: str
    size: int | None
    sha256: str


@dataclass(frozen=True)
class Document:
    """All that the page shows. `facts` stand in the first view; `numbers` is report.json."""

    title: str
    facts: tuple[tuple[str, str], ...]
    results: Results
    failures: Failures
    evidence: tuple[Evidence, ...]
    identifiers: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    numbers: dict[str, Any]
    tiles: frozenset[str] = TILES


def page(document: Document) -> bytes:
    return page_of("report", document.title, document.numbers, document=document)


def page_of(kind: str, title: str, numbers: dict[str, Any], **values: object) -> bytes:
    """A page of a kind: the template of its name, the common style, and its numbers as JSON inside."""
    style = Markup(files("steelyard.report").joinpath("templates/page.css").read_text("utf-8"))
    known = {"kind": kind, "title": title, "format": FORMAT, "style": style}
    return render(f"{kind}.html.j2", numbers=_inside_script(numbers), **known, **values).encode()


def numbers_json(numbers: dict[str, Any]) -> bytes:
    """report.json: sorted keys, so that equal numbers are equal bytes."""
    return orjson.dumps(numbers, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _inside_script(numbers: dict[str, Any]) -> Markup:
    """JSON that no HTML parser can leave: `<` could end the script element."""
    text = orjson.dumps(numbers, option=orjson.OPT_SORT_KEYS).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
