"""Frames for pages that other people's programs have made: a browser runs no script of them.

`steelyard safetycase open` and `steelyard report open` use them.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from steelyard.client import Client


_TITLES = {"reports": "Report", "safetycases": "Safety case"}


def has_foreign_page(client: "Client", plural: str, id: str) -> bool:
    """Return whether code of users has made the page of an entity."""
    if plural == "reports":
        return bool(client.reports.get(id).modules)  # its rubric is one of theirs
    return plural == "safetycases"


def frame_of(page: Path, plural: str) -> Path:
    """Write a page that shows another one without running its scripts, above its folder; return its path."""
    title = _TITLES[plural]
    frame = page.parent.parent / "open.html"
    source = f"{quote(page.parent.name)}/{quote(page.name)}"
    style = "html, body, iframe { margin: 0; border: 0; width: 100%; height: 100% }"
    head = f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n<style>{style}</style>\n'
    frame.write_text(f'{head}<iframe sandbox src="{source}"></iframe>\n')
    return frame
