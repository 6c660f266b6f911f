"""Tests of what `steelyard status` says of a node's GPUs, and of the addresses of figures."""

import json
from pathlib import Path

import pytest

from steelyard.local.overview import GPUS, Overview, _metrics, node_gpus, to_table
from steelyard.local.state import Record, StateDir
from steelyard_common.lock import FileLock
from steelyard_common.types import Json

GPU = {
    "uuid": "GPU-a",
    "resource": "nvidia.com/gpu",
    "name": "H100",
    "memory": 80 << 30,
    "state": "held by default/one",
}


def node(text: str) -> Json:
    return {"metadata": {"name": "n", "annotations": {GPUS: text}}}


def test_gpus_are_a_table_with_who_has_them() -> None:
    shown = {"name": "n", "ready": True, "allocatable": {}, "gpus": node_gpus(node(json.dumps([GPU])))}
    lines = to_table(Overview("/s", True, "ready", nodes=(shown,))).splitlines()
    assert "GPU-a  nvidia.com/gpu  H100  80 GiB  held by default/one" in lines


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]"])
def test_an_annotation_that_cannot_be_read_shows_none(text: str) -> None:
    assert node_gpus(node(text)) == []
    shown = {"name": "n", "ready": True, "allocatable": {}, "gpus": []}
    assert "GPU" not in to_table(Overview("/s", True, "ready", nodes=(shown,)))


def test_addresses_of_figures_are_shown_whether_or_not_up_runs() -> None:
    metrics = {"operator": "http://127.0.0.1:1/metrics"}
    lines = to_table(Overview("/s", True, "ready", metrics=metrics)).splitlines()
    assert "operator        http://127.0.0.1:1/metrics" in lines
    alone = to_table(Overview("/s", False, "not running", metrics=metrics))
    assert "operator runs alone, metrics: http://127.0.0.1:1/metrics" in alone


def test_who_was_killed_serves_no_figures(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    for name in ("operator", "reaper"):
        state.metrics(name).write_text(f"http://127.0.0.1:1/{name}\n")
    with FileLock(state.lock("reaper")):
        assert _metrics(state, Record()) == {"reaper": "http://127.0.0.1:1/reaper"}
