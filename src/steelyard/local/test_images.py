"""Tests of the file of images: no entry of ours stands in it, and what users wrote stays."""

import sys
import tomllib
from pathlib import Path

import pytest

from steelyard.local.image_resolver import find
from steelyard.local.images import prepare_images
from steelyard.local.platform_identity import load_identity
from steelyard.local.state import StateDir

OURS = {
    "steps": [],
    "python": [],
    "runner-sklearn": ["python", "-m", "steelyard.steps.runner_sklearn"],
    "runner-mock": ["python", "-m", "steelyard.steps.mock_inference_service"],
    "kubectl": ["python", "-m", "steelyard.local.kubectl", "deliver"],
}
MINE = '["localhost/mine"]\npython = "/mine/bin/python"\n'


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def written_by_an_earlier_version(state: StateDir, python: str = "/gone/bin/python") -> str:
    """The file as versions before wrote it: with the Python of the installation that made the folder."""
    deliver = f'["python", "-m", "steelyard.local.kubectl", "deliver", "{state.kubeconfig}"]'
    return (
        "# Which program runs for which image: python = PATH or root = FOLDER.\n"
        f'["localhost/steelyard/steps"]\npython = "{python}"\n\n'
        f'["localhost/steelyard/runner-sklearn"]\npython = "{python}"\n'
        'command = ["python", "-m", "steelyard.steps.runner_sklearn"]\n\n'
        f'["localhost/steelyard/runner-mock"]\npython = "{python}"\n'
        'command = ["python", "-m", "steelyard.steps.mock_inference_service"]\n\n'
        f'["localhost/steelyard/kubectl"]\npython = "{python}"\ncommand = {deliver}\n'
    )


def test_the_file_names_no_installation(state: StateDir) -> None:
    prepare_images(state, load_identity(state))
    text = state.images.read_text()
    assert tomllib.loads(text) == {}
    # What the head offers works once the marks of the comment are taken away.
    shown = [line.removeprefix("# ") for line in text.splitlines() if line.startswith(("# [", "# python"))]
    state.images.write_text("\n".join(shown))
    image = find(state.images, "registry.example.org/team/train:1")
    assert image.python == "/path/to/environment/bin/python"


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_ours_is_the_python_that_runs_now(state: StateDir, name: str) -> None:
    prepare_images(state, load_identity(state))
    image = find(state.images, f"localhost/steelyard/{name}:1@sha256:00")
    assert (image.python, image.is_own) == (sys.executable, True)
    last = [str(state.kubeconfig)] if name == "kubectl" else []
    assert list(image.command) == OURS[name] + last


def test_what_the_user_says_of_images_stays(state: StateDir) -> None:
    state.images.write_text("# mine\n")
    prepare_images(state, load_identity(state))
    assert state.images.read_text() == load_identity(state).add_mark("# mine\n")


@pytest.mark.parametrize("end", ["", f"\n{MINE}", MINE])
def test_entries_of_an_earlier_installation_go_and_those_of_users_stay(state: StateDir, end: str) -> None:
    state.images.write_text(written_by_an_earlier_version(state) + end)
    prepare_images(state, load_identity(state))
    known = tomllib.loads(state.images.read_text())
    assert set(known) == ({"localhost/mine"} if end else set())
    assert find(state.images, "localhost/steelyard/runner-mock").python == sys.executable
    again = state.images.read_text()
    assert "root" not in again
    prepare_images(state, load_identity(state))
    assert state.images.read_text() == again


def test_an_image_of_ours_that_a_user_has_changed_is_the_users(state: StateDir) -> None:
    text = written_by_an_earlier_version(state)
    start = text.index('["localhost/steelyard/runner-sklearn"]')
    text = text[:start] + text[start:].replace("/gone/bin/python", "/mine/bin/python", 1)
    state.images.write_text(text)
    prepare_images(state, load_identity(state))
    assert set(tomllib.loads(state.images.read_text())) == {"localhost/steelyard/runner-sklearn"}
    image = find(state.images, "localhost/steelyard/runner-sklearn")
    assert image.argv({})[0] == "/mine/bin/python"
