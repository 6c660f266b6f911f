"""Modules of extras that are not installed: the message names the extra."""

import sys
from pathlib import Path

import pytest

from steelyard.cli.extras import MissingExtra, needs


def of_another(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import a module that is not ours and that imports `name`."""
    (folder / "another.py").write_text(f"import {name}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "another", raising=False)
    import another  # type: ignore[import-not-found]  # noqa: F401


def ours() -> None:
    import nothing_of.this  # type: ignore[import-not-found]  # noqa: F401


def test_what_we_import_and_do_not_find_names_the_extra() -> None:
    with pytest.raises(MissingExtra) as raised:
        needs("eval")(ours)()
    assert str(raised.value) == (
        "this needs nothing_of, which is not installed: pip install 'steelyard[eval]'"
    )
    assert raised.value.exit_code == 2


def test_a_task_of_a_group_that_lacks_a_module_names_the_extras() -> None:
    def grouped() -> None:
        try:
            ours()
        except ModuleNotFoundError as error:
            raise ExceptionGroup("tasks", [ValueError("another"), error]) from None

    with pytest.raises(MissingExtra, match=r"pip install 'steelyard\[api,operator\]'"):
        needs("api", "operator")(grouped)()


def test_what_others_import_and_do_not_find_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_of"):
        needs("eval")(of_another)("nothing_of", tmp_path, monkeypatch)


def test_an_error_of_another_kind_stays_as_it_is() -> None:
    def failing() -> None:
        raise ExceptionGroup("tasks", [ValueError("a fault of the input")])

    with pytest.raises(ExceptionGroup, match="tasks"):
        needs("eval")(failing)()
