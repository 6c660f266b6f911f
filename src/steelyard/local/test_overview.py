"""Tests of what `steelyard status` says of a node's GPUs."""

import json

import pytest

from steelyard.local.overview import GPUS, Overview, gpus_of, to_table
from steelyard.types import Json

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
    shown = {"name": "n", "ready": True, "allocatable": {}, "gpus": gpus_of(node(json.dumps([GPU])))}
    lines = to_table(Overview("/s", True, "ready", nodes=(shown,))).splitlines()
    assert "GPU-a  nvidia.com/gpu  H100  80 GiB  held by default/one" in lines


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]"])
def test_an_annotation_that_cannot_be_read_shows_none(text: str) -> None:
    assert gpus_of(node(text)) == []
    shown = {"name": "n", "ready": True, "allocatable": {}, "gpus": []}
    assert "GPU" not in to_table(Overview("/s", True, "ready", nodes=(shown,)))
