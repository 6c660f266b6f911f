"""The report as one HTML file: nothing is loaded, the same document gives the same bytes.

One script of our own runs, to search rows; the page allows it by its SHA-256 and no other. All else stands there
without it.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import orjson
from markupsafe import Markup

from steelyard_evaluation.report.page.row_errors import RowErrors
from steelyard_evaluation.report.page.rows import Rows
from steelyard_evaluation.report.page.templating import render
from steelyard_evaluation.report.results import Figure, Metric, Results

FORMAT = "0.1"
"""Version of the page and of report.json. Rendering adds no other version, no host and no time."""
BEST_AT_ZERO = frozenset({"calibration_error", "ece"})
"""Shares that are best at 0: on one axis with others they would mislead. Reports of earlier versions say `ece`."""
TILES = frozenset({"answered", "f1_macro", "brier", *BEST_AT_ZERO})
MOST_EVIDENCE = 60
"""Files of one sort that the page lists; report.json lists all."""


@dataclass(frozen=True)
class Failure:
    """A question that got a wrong answer: each wrong answer once, how often, how sure."""

    index: int
    label: str
    said: tuple[str, ...]
    wrong: int
    times: int
    probability: float | None
    texts: tuple[tuple[str, str], ...]
    picture: Figure | None
    verdicts: tuple[tuple[str, str], ...] = ()
    """Verdict of each rubric, where there are several."""

    @property
    def said_its_label(self) -> bool:
        """Return whether the answer is the target: a judge may grade it wrong all the same."""
        return self.said == (self.label,)

    @property
    def long(self) -> bool:
        """Too long for a sentence: said and target stand below each other."""
        return len(self.label or "") + sum(map(len, self.said)) > 60 or "\n" in "".join(
            (self.label or "", *self.said)
        )


@dataclass(frozen=True)
class Failures:
    """The questions shown, and a sentence that says how many there are and how these were chosen."""

    sentence: str
    total: int
    shown: tuple[Failure, ...]

    @property
    def wide(self) -> bool:
        """Texts to read rather than pictures and words."""
        texts = sum(len(text) for failure in self.shown for _, text in failure.texts)
        return any(failure.long for failure in self.shown) or texts > 160 * len(self.shown)


@dataclass(frozen=True)
class Evidence:
    what: str
    path: str
    size: int | None
    sha256: str


@dataclass(frozen=True)
class Section:
    """Results of one rubric on the page."""

    rubric: str
    results: Results
    failures: Failures
    scores: str
    """The file of its scores."""


@dataclass(frozen=True)
class Document:
    """All that the page shows. `facts` stand in the first view; `numbers` is report.json."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    failures: Failures
    """The failures of all rubrics, each question once."""
    errors: RowErrors
    tokens: tuple[tuple[str, str], ...]
    rows: Rows
    evidence: tuple[Evidence, ...]
    identifiers: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    numbers: dict[str, Any]

    @property
    def results(self) -> Results:
        """Results of the first rubric."""
        return self.sections[0].results

    @property
    def tiles(self) -> tuple[Metric, ...]:
        """The figures of the first view: of the only rubric its main ones, of several the first of each."""
        lead, *others = self.sections
        if not others:
            metrics = lead.results.metrics
            return (*metrics[:1], *(metric for metric in metrics[1:] if metric.name in TILES))
        return tuple(
            replace(section.results.metrics[0], note=section.rubric)
            for section in self.sections
            if section.results.metrics
        )

    @property
    def limits(self) -> tuple[str, ...]:
        """Limits that every rubric states, once; those of one rubric stand under its name."""
        every = [section.results.limits for section in self.sections]
        common = [limit for limit in every[0] if all(limit in limits for limits in every)]
        own = [
            f"{section.rubric}: {limit}"
            for section in self.sections
            for limit in section.results.limits
            if limit not in common
        ]
        return (*common, *own)

    @property
    def main_evidence(self) -> tuple[Evidence, ...]:
        """The evidence that the page lists: of many files of one sort the first."""
        seen: dict[str, int] = {}
        shown = []
        for entry in self.evidence:
            seen[entry.what] = seen.get(entry.what, 0) + 1
            if seen[entry.what] <= MOST_EVIDENCE:
                shown.append(entry)
        return tuple(shown)


def page(document: Document) -> bytes:
    sections = [_make_ids_unique(section, number) for number, section in enumerate(document.sections)]
    return render_page(
        "report",
        document.title,
        document.numbers,
        script="rows.js",
        document=replace(document, sections=tuple(sections)),
        rows_data=_inside_script(document.rows.data),
    )


def rows_page(sentence: str, data: bytes, links: Sequence[tuple[str, str]]) -> bytes:
    """A page of rows alone; `data` is what its script reads."""
    return render_page(
        "rows", sentence, {}, script="rows.js", sentence=sentence, rows_data=_escape(data), links=links
    )


def render_page(
    kind: str, title: str, numbers: dict[str, Any], *, script: str = "", **values: object
) -> bytes:
    """A page of a kind: the template of its name, the common style, and its numbers as JSON inside.

    `script` names the one file that may run in it.
    """
    code = _text(script) if script else ""
    known = {
        "kind": kind,
        "title": title,
        "format": FORMAT,
        # Our own files, the only ones that are not escaped.
        "style": Markup(_text("page.css")),
        "script": Markup(code),
        "script_hash": _hash(code),
    }
    return render(f"{kind}.html.j2", numbers=_inside_script(numbers), **known, **values).encode()


def numbers_json(numbers: dict[str, Any]) -> bytes:
    """report.json: sorted keys, so that equal numbers are equal bytes."""
    return orjson.dumps(numbers, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def numbers_inside(page: bytes, kind: str = "report") -> bytes | None:
    """The JSON inside a page; None when there is none."""
    _, _, rest = page.partition(b'<script type="application/json" id="%b">' % kind.encode())
    inside, end, _ = rest.partition(b"</script>")
    return inside if end else None


def _make_ids_unique(section: Section, number: int) -> Section:
    """Figures of a further rubric, with ids of their own: two rubrics may draw figures of one title."""
    if number == 0:
        return section

    def rename_ids(match: re.Match[str]) -> str:
        names = " ".join(f"rubric-{number + 1}-{name}" for name in match[2].split())
        return f'{match[1]}="{names}"'

    drawn = tuple(
        replace(figure, svg=Markup(re.sub(r'\b(id|aria-labelledby)="([^"]*)"', rename_ids, figure.svg)))
        for figure in section.results.figures
    )
    return replace(section, results=replace(section.results, figures=drawn))


def _text(name: str) -> str:
    return files("steelyard_evaluation.report.page").joinpath(f"templates/{name}").read_text("utf-8")


def _hash(code: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}"


def _inside_script(value: object) -> Markup:
    return _escape(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _escape(data: bytes) -> Markup:
    """JSON that no HTML parser can leave: `<` could end the script element."""
    text = data.decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
