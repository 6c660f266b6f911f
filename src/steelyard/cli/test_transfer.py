"""Tests of the progress of transfers."""

import sys

import pytest

from steelyard.cli.transfer import _progress


def test_a_file_with_brackets_in_its_name_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _progress("uploading") as show:
        show("a[/b]", 1, 2)
    assert "a[/b]" in capsys.readouterr().err
