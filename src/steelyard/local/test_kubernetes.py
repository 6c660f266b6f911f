"""Tests of the configuration of a folder's Kubernetes."""

from pathlib import Path

import pytest

from steelyard.local.kubernetes import gpu_rules, kubernetes_config
from steelyard.local.state import StateDir


@pytest.mark.parametrize("name", ["kubeconfig", "database", "at_work", "pki", "token", "pods", "hosts"])
def test_a_state_folder_and_its_kubernetes_agree_where_files_lie(tmp_path: Path, name: str) -> None:
    state = StateDir(tmp_path)
    assert getattr(kubernetes_config(state), name) == getattr(state, name)


def test_the_kubelets_settings_come_from_the_file_and_from_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, file = StateDir(tmp_path), tmp_path / "steelyard.toml"
    assert gpu_rules(None, state).shares == 1
    file.write_text("gpus.shares = 4")
    assert gpu_rules(file, state).shares == 4
    monkeypatch.setenv("STEELYARD_GPUS__UNASKED", "all")
    assert gpu_rules(None, state).unasked == "all"
