"""Tests of the settings of a state folder that are empty, or say that there is none."""

from pathlib import Path

import pytest

from steelyard.local.images import KUBECTL
from steelyard.local.operator import check_lease, operator_settings
from steelyard.local.state import StateDir
from steelyard.operator.settings import TrainingSettings
from steelyard.settings import load
from steelyard_common.errors import SteelyardError
from steelyard_kube.cluster import Resource
from steelyard_kube.errors import Forbidden
from steelyard_kube.memory import MemoryCluster


def training(folder: Path, text: str) -> TrainingSettings:
    file = folder / "steelyard.toml"
    file.write_text(text)
    return operator_settings(load(file, folder), StateDir(folder)).training


def test_on_one_machine_outputs_lie_in_its_folder(tmp_path: Path) -> None:
    here = training(tmp_path, "")
    assert (here.outputs, here.kubectl_delivery_image) == (str(tmp_path / "outputs"), KUBECTL)


@pytest.mark.parametrize("name", ["outputs", "kubectl_delivery_image"])
def test_an_empty_setting_means_none(tmp_path: Path, name: str) -> None:
    assert getattr(training(tmp_path, f'operator.training.{name} = ""'), name) == ""


def test_an_empty_variable_means_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_OPERATOR__TRAINING__OUTPUTS", "")
    assert training(tmp_path, "").outputs == ""


def test_the_nodes_of_another_cluster_do_not_know_this_folder(tmp_path: Path) -> None:
    there = training(tmp_path, f'kubernetes = "{tmp_path}/another"')
    assert (there.outputs, there.kubectl_delivery_image) == ("", TrainingSettings().kubectl_delivery_image)


async def test_a_start_asks_for_the_lease_alone_and_says_in_a_line_what_is_refused() -> None:
    cluster, asked = MemoryCluster(), list[tuple[str, str, str]]()
    refused = False

    def hear(verb: str, resource: Resource, name: str) -> None:
        asked.append((verb, resource.plural, name))
        if refused:
            raise Forbidden("leases is forbidden")

    cluster.before_call = hear
    await check_lease(cluster, "steelyard")
    assert asked == [("get", "leases", "steelyard-operator")]
    refused = True
    with pytest.raises(SteelyardError, match="lease steelyard/steelyard-operator: leases is forbidden"):
        await check_lease(cluster, "steelyard")


def test_workflows_may_reach_the_storage_by_another_url(tmp_path: Path) -> None:
    file = tmp_path / "steelyard.toml"
    file.write_text('storage = "file:///data"\n')
    assert operator_settings(load(file, tmp_path), StateDir(tmp_path)).storage == "file:///data"
    file.write_text('storage = "file:///data"\noperator.storage = "s3://steelyard"\n')
    loaded = load(file, tmp_path)
    assert (loaded.storage, operator_settings(loaded, StateDir(tmp_path)).storage) == (
        "file:///data",
        "s3://steelyard",
    )
