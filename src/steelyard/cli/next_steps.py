"""The last words of `steelyard run`: what came out, where the page is, and three things to try next."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from steelyard.cli.connection import command_name, short_path
from steelyard.local.state import StateDir
from steelyard_common.whole_files import TooLarge, parse_json, read_whole


@dataclass(frozen=True)
class FinishedResource:
    """A resource that ended well, and the URL of its output (empty without an output)."""

    kind: str
    name: str
    output: str
    seconds: float


def closing_words(ended: Sequence[FinishedResource], state: StateDir, folder: Path) -> str:
    """Plain text, a line each, ready to print."""
    report = next((resource for resource in reversed(ended) if resource.kind == "Report"), None)
    lines = ["", f"{len(ended)} resources finished in {sum(resource.seconds for resource in ended):.1f} s."]
    page = ""
    if report is not None:
        page = _readable(report.output) + "/report.html"
        lines += [_headline(report.output), "", f"Report: {page}"]
    lines += [
        f"Audit:  {_readable(resource.output)}/index.html" for resource in ended if resource.kind == "Audit"
    ]
    steelyard, kubeconfig = command_name(), short_path(state.kubeconfig)
    evaluation = next((resource for resource in ended if resource.kind == "Evaluation"), None)
    looked_at = f"describe evaluation {evaluation.name}" if evaluation else "get all"
    lines += [
        "",
        "Try next:",
        f"  1. open the page:      xdg-open {page}"
        if page
        else f"  1. see what there is:  {steelyard} status",
        f"  2. start it again:     {steelyard} up --detach --state-dir {short_path(state.path)}",
        f"     and look inside:    kubectl --kubeconfig {kubeconfig} {looked_at}",
        f"  3. change the example: edit {folder}/*.yaml, then {steelyard} run {folder}",
    ]
    return "\n".join(lines)


def _headline(output: str) -> str:
    """The report's own sentence; empty where the output is not on this machine."""
    try:
        content = parse_json(read_whole(Path(unquote(urlparse(output).path)) / "report.json"))
    except (OSError, TooLarge, ValueError):
        return ""
    return str(content.get("headline", "")) if isinstance(content, dict) else ""


def _readable(url: str) -> str:
    """A path for a file URL, else the URL."""
    return short_path(Path(unquote(urlparse(url).path))) if url.startswith("file:") else url
