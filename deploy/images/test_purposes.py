"""Tests of the table of images and of the command: names, extras, and the images that cannot be made yet."""

import re
import tomllib

import pytest

from deploy.images.__main__ import main
from deploy.images.purposes import MADE, PURPOSES
from tests.source import ROOT, STEELYARD

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_every_extra_of_an_image_exists() -> None:
    assert {extra for purpose in PURPOSES.values() for extra in purpose.extras} <= set(EXTRAS)


def test_names_can_stand_in_references() -> None:
    assert [name for name in PURPOSES if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)] == []


def test_the_operator_carries_nothing_of_the_platform() -> None:
    assert {"api", "steps", "eval"}.isdisjoint(PURPOSES["operator"].extras)


@pytest.mark.parametrize("name", sorted(set(PURPOSES) - set(MADE)))
def test_an_image_that_cannot_be_made_says_why(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert capsys.readouterr().err.startswith(f"{name}: not implemented: ")


def test_an_unknown_image_is_refused_with_the_names_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no image nothing; there are operator, platform, " in capsys.readouterr().err


def test_the_help_describes_every_image(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert [name for name in PURPOSES if name not in text] == []


SHELL = re.compile(r"""shell=True|os\.system|os\.popen|subprocess_shell|["'](?:/bin/)?(?:ba|da)?sh["']""")
"""Calls and names of shells."""
INSIDE = ("accounts", "api", "broker", "egress", "operator", "services", "sqlite", "steps", "views")
"""Folders whose programs run in the images that have no shell."""


def test_no_program_of_ours_in_an_image_calls_a_shell() -> None:
    folders = [STEELYARD / name for name in INSIDE]
    folders += [ROOT / "packages" / name / "src" for name in ("common", "evaluation", "kube", "schema")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(paths) > 500
    calls = [
        f"{path.relative_to(ROOT)}: {call[0]}"
        for path in paths
        if not path.name.startswith("test_")
        for call in SHELL.finditer(path.read_text())
    ]
    assert calls == []
