"""A panel: a table that is read when it is shown, and what may be done with its rows."""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from steelyard.clusters.errors import NotConfigured

Row = Sequence[str]


@dataclass(frozen=True)
class Panel:
    """A table that is read again each time it is shown."""

    title: str
    heading: Row
    read: Callable[[], Sequence[Row]]
    actions: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    """Buttons by their words. Each one gets the first cell of the chosen row; the text that it returns is shown."""

    def text(self) -> str:
        """Return the table for a terminal."""
        rows = [self.heading, *self.read()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.heading))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, *lines])

    def html(self) -> str:
        """Return the table as HTML."""
        return self.html_of(self.read())

    def html_of(self, rows: Sequence[Row]) -> str:
        heading = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.heading)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        title = html.escape(self.title)
        return (
            f"<table><caption>{title}</caption><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
        )

    def widget(self) -> Any:
        """Return the table with its buttons. Raises NotConfigured where ipywidgets is not installed."""
        if find_spec("ipywidgets") is None:
            raise NotConfigured(
                "buttons need ipywidgets: pip install ipywidgets; print(panel) shows the text"
            )
        from steelyard.clusters.widgets.buttons import widget_of

        return widget_of(self)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        shown = self.widget() if find_spec("ipywidgets") else HTML(self.html())
        display(shown)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__
