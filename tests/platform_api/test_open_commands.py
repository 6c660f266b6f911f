"""The commands that open pages in a browser: those of users' programs in a frame that runs no script."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard_schema.names import place
from tests.platform_api.published import Laboratory, laboratory

PAGE = "<script>alert()</script>"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("open")) as made:
        yield made


def opened_page(
    lab: Laboratory, command: str, id: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the file that the browser is told to show."""
    addresses: list[str] = []
    monkeypatch.setattr("typer.launch", addresses.append)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    words = [command, "open", id, "--endpoint", lab.platform.url, "--token", lab.platform.token]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    (address,) = addresses
    return Path(unquote(urlsplit(address).path))


@pytest.mark.parametrize(
    ("kind", "page", "framed"),
    [
        ("SafetyCase", "index.html", True),
        ("Report", "report.html", False),
        ("Report of a module", "report.html", True),
    ],
)
def test_a_page_that_a_users_program_has_made_is_opened_in_a_frame(
    lab: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, page: str, framed: bool
) -> None:
    kind, _, by_module = kind.partition(" of a ")
    if by_module:
        fields = {
            "rubric": "sure.Sure",
            "evaluation": lab.make("Evaluation"),
            "modules": [lab.make("Module")],
        }
        id = str(lab.post("reports", **fields)["id"])
    else:
        id = lab.make(kind)
    lab.wait(lab.platform.engines.store.put(f"{place(kind, id)}/{page}", PAGE.encode()))
    lab.finish(kind, id)
    shown = opened_page(lab, kind.lower(), id, tmp_path, monkeypatch)
    if framed:
        assert '<iframe sandbox src="page/' in shown.read_text()
        assert (shown.parent / "page" / page).read_text() == PAGE
    else:
        assert shown.read_text() == PAGE
