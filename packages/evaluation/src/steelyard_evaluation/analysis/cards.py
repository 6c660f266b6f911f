"""Cards that a notebook shows: HTML with its own style, so that a page needs nothing from the network.

The value of a cell's last line is shown, if it is a card.
"""

from dataclasses import dataclass
from html import escape
from typing import Literal

from steelyard_schema.bounds import SUMMARY_LENGTH, TITLE_LENGTH

Indicator = Literal["Information", "Question", "Hazard"]
_MARKS: dict[Indicator, tuple[str, str]] = {
    "Information": ("i", "#1d4ed8"),
    "Question": ("?", "#a16207"),
    "Hazard": ("!", "#b91c1c"),
}
_BOX = "background:#f1f3f5;color:#111;border-radius:6px;padding:10px 14px;margin:4px 0;font-size:1.1em"


@dataclass(frozen=True)
class Card:
    """A piece of HTML that Jupyter shows as such."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def score_card(quantity: str, text: str, title: str = "") -> Card:
    """Return the card of a score, or of a curve, whose quantity is its number of points."""
    heading = f'<div style="font-size:.8em;color:#555">{escape(title)}</div>' if title else ""
    return Card(
        f'<div style="{_BOX}">{heading}<b style="font-size:1.4em">{escape(quantity)}</b> {escape(text)}</div>'
    )


def conclusion(text: str, indicator: Indicator = "Information") -> Card:
    """Return the card of a conclusion, of at most 140 characters. Raises ValueError."""
    _check_length("text", text, TITLE_LENGTH)
    if indicator not in _MARKS:
        raise ValueError(f"indicator: {indicator!r} should be one of {', '.join(_MARKS)}")
    mark, colour = _MARKS[indicator]
    badge = (
        f'<span style="display:inline-block;width:1.4em;text-align:center;border-radius:1em;color:#fff;'
        f'background:{colour}" title="{indicator}">{mark}</span>'
    )
    return Card(f'<div style="{_BOX}">{badge} {escape(text)}</div>')


def title_card(
    headline: str, *, author: str, result: str, summary: str, about: tuple[tuple[str, str, str], ...]
) -> Card:
    """Return the card at the head of a page. `about` has kind, title and summary of what the page is about."""
    _check_length("summary", summary, SUMMARY_LENGTH)
    parts = [*about, ("Result", result, summary)]
    boxes = "".join(
        f'<div style="flex:1;min-width:12em"><div style="font-size:.8em;color:#555">{escape(kind)}</div>'
        f"<b>{escape(title)}</b><div>{escape(text)}</div></div>"
        for kind, title, text in parts
    )
    return Card(
        f'<h1 style="text-align:center">{escape(headline)}</h1>'
        f'<div style="{_BOX};display:flex;flex-wrap:wrap;gap:1em">{boxes}</div>'
        f'<div style="text-align:center;color:#555">{escape(author)}</div>'
    )


def _check_length(name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise ValueError(f"{name}: has {len(text)} characters; at most {most} are allowed")
