"""Tests of the progress of transfers, and of the frame in which pages are opened."""

import sys
from pathlib import Path

import pytest

from steelyard.cli.transfer import _progress, frame_of


def test_a_file_with_brackets_in_its_name_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _progress("uploading") as show:
        show("a[/b]", 1, 2)
    assert "a[/b]" in capsys.readouterr().err


def test_a_page_of_others_is_opened_where_it_runs_nothing(tmp_path: Path) -> None:
    page = tmp_path / "a page" / "index.html"
    page.parent.mkdir()
    page.write_text("<script>alert()</script>")
    frame = frame_of(page)
    assert frame.parent == tmp_path
    # Without a value, the attribute takes every right from the page.
    assert '<iframe sandbox src="a%20page/index.html"></iframe>' in frame.read_text()
