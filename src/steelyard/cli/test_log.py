"""`steelyard log`: who is asked before a log is accepted or rebuilt."""

from io import StringIO

import pytest
import typer

from steelyard.cli.log import confirm
from steelyard_common.errors import UsageError


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(request.param))


@pytest.mark.parametrize("answers", [""], indirect=True)
@pytest.mark.usefixtures("answers")
def test_without_a_terminal_the_error_names_the_option() -> None:
    with pytest.raises(UsageError, match="nothing was changed: the question was not answered; --yes"):
        confirm("Accept?", False)
    confirm("Accept?", True)


@pytest.mark.parametrize("answers", ["n\n"], indirect=True)
@pytest.mark.usefixtures("answers")
def test_a_no_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        confirm("Accept?", False)
    assert "nothing was changed" in capsys.readouterr().out


@pytest.mark.parametrize("answers", ["y\n"], indirect=True)
@pytest.mark.usefixtures("answers")
def test_a_yes_goes_on() -> None:
    confirm("Accept?", False)
