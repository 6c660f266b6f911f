"""The widget of a panel: its table, a choice of its rows, a button for each action, and the message of the last one.

A notebook does not show an exception of a callback: the widget shows the error itself.
"""

import html
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets

from steelyard.clusters.errors import ClusterError
from steelyard.clusters.widgets.panel import Panel, Row


def widget_of(panel: Panel) -> Any:
    """Return the widget, with the rows as they are now."""
    table, message = ipywidgets.HTML(), ipywidgets.HTML()
    names = ipywidgets.Dropdown(options=[])

    def show(rows: Sequence[Row]) -> None:
        chosen, names.options = names.value, [row[0] for row in rows]
        # Nothing is chosen by itself: after Delete, another click must not delete the next one.
        names.value = chosen if chosen in names.options else None
        table.value = panel.html_of(rows)

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

    def chosen(action: Callable[[str], object]) -> Callable[[], object]:
        return lambda: action(names.value) if names.value else "nothing is chosen"

    buttons = [button("Refresh", lambda: None)]
    if panel.actions:
        buttons.append(names)
        buttons += [button(label, chosen(action)) for label, action in panel.actions.items()]
    run(lambda: None)
    return ipywidgets.VBox([table, ipywidgets.HBox(buttons), message])


def _text(result: object, *, colour: str = "inherit") -> str:
    if result is None:
        return ""
    return f'<pre style="color: {colour}; white-space: pre-wrap">{html.escape(str(result))}</pre>'
