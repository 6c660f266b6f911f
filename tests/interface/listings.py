"""The listings of what users build on, by the name of the file that keeps each."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.interface import command_line, custom_resources, http_document, python_names, settings_file

FOLDER = Path(__file__).parent / "listed"
LISTINGS: Mapping[str, Callable[[], list[str]]] = {
    "commands.txt": command_line.lines,
    "custom-resources.txt": custom_resources.lines,
    "http.txt": http_document.lines,
    "python.txt": python_names.lines,
    "settings.txt": settings_file.lines,
}


def written(name: str) -> str:
    """The text of a listing as it is now."""
    return "\n".join(LISTINGS[name]()) + "\n"
