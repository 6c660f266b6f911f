"""Plays the README of the embedded Kubernetes as another project does: its fixture, its example, its command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source import PYTHONPATH, ROOT

pytestmark = pytest.mark.e2e
README = (ROOT / "packages" / "local-kubernetes" / "README.md").read_text()
MODULE = (sys.executable, "-m", "steelyard_local_kubernetes")


def run(*command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": PYTHONPATH,
        "COLUMNS": "300",
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_example_is_a_test_of_another_project(tmp_path: Path) -> None:
    fixture, example = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "conftest.py").write_text(fixture)
    (tmp_path / "test_example.py").write_text(example)
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", folder=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_help_names_folder_and_port(tmp_path: Path) -> None:
    done = run(*MODULE, "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert f"by default {tmp_path}/.local/state/steelyard-local-kubernetes" in words
    assert "--port PORT of the API server on 127.0.0.1" in words


def test_the_command_prints_where_the_kubeconfig_is_and_ends_by_a_signal(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(
        [*MODULE, "cluster"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"export KUBECONFIG={tmp_path}/cluster/kubeconfig\n"
        assert (tmp_path / "cluster" / "kubeconfig").exists()
        process.terminate()
    assert process.returncode == 0
