"""Names of kinds, of state folders, and of the command itself."""

import json
import sys
from pathlib import Path

import pytest

from steelyard.cli.connection import (
    COLLECTIONS,
    SHORT,
    WITH_FILES,
    WORKFLOWS,
    choose_state_dir,
    collection_name,
    command_name,
    connect,
    find_supporting,
)
from steelyard.client import NotConfigured
from steelyard.local.state import StateDir
from steelyard_common.errors import UsageError


@pytest.mark.parametrize("word", ["eval", "evals", "evaluation", "evaluations", "Evaluation"])
def test_a_kind_has_several_forms(word: str) -> None:
    assert collection_name(word) == "evaluations"


def test_every_short_form_is_that_of_its_kind_alone() -> None:
    assert [collection_name(short) for short in SHORT] == list(COLLECTIONS)
    assert [collection_name(f"{short}s") for short in SHORT] == list(COLLECTIONS)
    with pytest.raises(UsageError, match="evaluatoins: there is no such kind; there are datasets"):
        collection_name("evaluatoins")
    with pytest.raises(UsageError, match=r"there are datasets, models$"):
        collection_name("evaluatoins", {"models", "datasets"})


def test_a_kind_that_has_no_such_thing_is_refused_with_those_that_have() -> None:
    assert find_supporting("models", WORKFLOWS, "logs") == "models"
    with pytest.raises(
        UsageError,
        match="models have no files to download; these do: datasets, datasources, modules, evaluations, rep",
    ):
        find_supporting("models", WITH_FILES, "files to download")


def test_the_state_folder_is_the_one_given_else_the_one_nearby_else_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert choose_state_dir(None).path == tmp_path / "home/.local/state/steelyard"
    (tmp_path / ".steelyard").mkdir()
    assert choose_state_dir(None).path == tmp_path / ".steelyard"
    assert choose_state_dir(Path("mine")).path == tmp_path / "mine"


def test_the_command_is_named_so_that_it_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".venv/bin"
    folder.mkdir(parents=True)
    (folder / "steelyard").write_text("#!/bin/sh\n")
    (folder / "steelyard").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    for called, said in (
        (".venv/bin/steelyard", ".venv/bin/steelyard"),
        (str(folder / "steelyard"), ".venv/bin/steelyard"),
        ("/x/cli/main.py", "steelyard"),
    ):
        monkeypatch.setattr(sys, "argv", [called])
        assert command_name() == said
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "argv", [str(folder / "steelyard")])
    assert command_name() == "steelyard"


def test_a_token_that_is_given_and_empty_is_not_the_local_one(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.ready.write_text(
        json.dumps({"api": "http://127.0.0.1:1/v0", "token": "t", "kubeconfig": "/k", "pid": 1})
    )
    with connect(None, None, tmp_path) as client:
        assert client.endpoint == "http://127.0.0.1:1/v0"
    with pytest.raises(NotConfigured, match="--token"):
        connect(None, "", tmp_path)
    with pytest.raises(NotConfigured, match="--endpoint"):
        connect("", None, tmp_path)
