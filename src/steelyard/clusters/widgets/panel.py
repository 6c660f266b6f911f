"""A panel: a table that is read when it is shown, and what may be done with its rows."""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from steelyard.clusters.errors import ClusterError, NotConfigured

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
        return self.to_html(self.read())

    def to_html(self, rows: Sequence[Row]) -> str:
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
        return make_widget(self)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        shown = self.widget() if find_spec("ipywidgets") else HTML(self.html())
        display(shown)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def make_widget(panel: Panel) -> Any:
    """Return the table, a choice of its rows, a button for each action, and the message of the last one.

    A notebook does not show an exception of a callback: the widget shows the error itself.
    """
    import ipywidgets

    table, message = ipywidgets.HTML(), ipywidgets.HTML()
    names = ipywidgets.Dropdown(options=[])

    def show(rows: Sequence[Row]) -> None:
        chosen, names.options = names.value, [row[0] for row in rows]
        # Nothing is chosen by itself: after Delete, another click must not delete the next one.
        names.value = chosen if chosen in names.options else None
        table.value = panel.to_html(rows)

    def run(work: Callable[[], object]) -> None:
        """Do the work, show its result or its error, and then the rows as they are now."""
        try:
            message.value = _text(work())
            show(panel.read())
        except ClusterError as error:
            message.value = _text(error, colour="#b00020")

    def button(label: str, work: Callable[[], object]) -> Any:
        button = ipywidgets.Button(description=label, button_style="danger" if label == "Delete" else "")
        button.on_click(lambda _: run(work))
        return button

    def run_on_click(action: Callable[[str], object]) -> Callable[[], object]:
        return lambda: action(names.value) if names.value else "nothing is chosen"

    buttons = [button("Refresh", lambda: None)]
    if panel.actions:
        buttons.append(names)
        buttons += [button(label, run_on_click(action)) for label, action in panel.actions.items()]
    run(lambda: None)
    return ipywidgets.VBox([table, ipywidgets.HBox(buttons), message])


def _text(result: object, *, colour: str = "inherit") -> str:
    if result is None:
        return ""
    return f'<pre style="color: {colour}; white-space: pre-wrap">{html.escape(str(result))}</pre>'
