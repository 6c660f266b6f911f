"""Lines that `steelyard up` prints."""

import sys
from pathlib import Path

import pytest

from steelyard.cli.up import up
from steelyard.local.state import Ready, StateDir


@pytest.mark.parametrize("terminal", [True, False])
def test_a_detached_start_prints_its_token_to_a_terminal_alone(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = Ready("http://127.0.0.1:1/v0", "eyJsecret", tmp_path / "kubeconfig", 1)
    monkeypatch.setattr("steelyard.local.detached.start_detached", lambda *_: ready)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    up(tmp_path, detach=True)
    said = capsys.readouterr().out
    assert ("eyJsecret" in said) is terminal
    assert (str(StateDir(tmp_path).ready) in said) is not terminal
