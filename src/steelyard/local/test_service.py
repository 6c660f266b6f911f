"""Tests of the settings of a state folder that are empty, or say that there is none, and of definitions at a start."""

from pathlib import Path

import pytest

from steelyard.local.definitions.building import EMBEDDED
from steelyard.local.definitions.embedded import embedded_definitions
from steelyard.local.kubectl import IMAGE as KUBECTL
from steelyard.local.service import apply_crds, gpu_settings, operator_settings
from steelyard.local.state import StateDir
from steelyard.operator.settings import TrainingSettings
from steelyard.settings import load
from steelyard_common.types import copied
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import CRDS
from steelyard_schema.definitions import installed_definitions


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


def test_the_kubelets_settings_come_from_the_file_and_from_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, file = StateDir(tmp_path), tmp_path / "steelyard.toml"
    assert gpu_settings(None, state).shares == 1
    file.write_text("gpus.shares = 4")
    assert gpu_settings(file, state).shares == 4
    monkeypatch.setenv("STEELYARD_GPUS__UNASKED", "all")
    assert gpu_settings(None, state).unasked == "all"


async def test_only_definitions_that_differ_are_written() -> None:
    """Each write costs all checks of a schema; another project's definition stays as it is."""
    cluster = MemoryCluster()
    ours, queue, foreign = installed_definitions()[0], *embedded_definitions()[:2]
    for definition in (*installed_definitions(), *embedded_definitions()):
        crd = await cluster.create(CRDS, copied(definition))
        name, conditions = crd["metadata"]["name"], [{"type": "Established", "status": "True"}]
        await cluster.patch(CRDS, name, {"status": {"conditions": conditions}}, subresource="status")
    await cluster.patch(CRDS, ours["metadata"]["name"], {"spec": {"scope": "old"}})
    await cluster.patch(CRDS, queue["metadata"]["name"], {"spec": {"scope": "old"}})
    another = {"metadata": {"annotations": {EMBEDDED: None}}, "spec": {"scope": "another's"}}
    await cluster.patch(CRDS, foreign["metadata"]["name"], another)
    calls: list[tuple[str, str]] = []
    cluster.before_call = lambda verb, resource, name: calls.append((verb, name))
    await apply_crds(cluster)
    assert calls == [
        ("list", ""),
        ("patch", ours["metadata"]["name"]),
        ("patch", queue["metadata"]["name"]),
        ("list", ""),
    ]
    scopes = [
        (await cluster.get(CRDS, crd["metadata"]["name"]))["spec"]["scope"] for crd in (ours, queue, foreign)
    ]
    assert scopes == [ours["spec"]["scope"], queue["spec"]["scope"], "another's"]
