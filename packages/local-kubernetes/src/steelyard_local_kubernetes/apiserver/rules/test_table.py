"""Tables of rules: where a fault is named, and in which order."""

from typing import Any

import pytest

from steelyard_local_kubernetes.apiserver.rules.pods import pod_spec_causes
from steelyard_local_kubernetes.apiserver.rules.table import (
    causes_by,
    choice,
    if_named,
    items,
    need,
    number,
    part,
    values,
)
from steelyard_local_kubernetes.apiserver.rules.volumes import volume_causes

TABLE = (
    need("name"),
    number("size", 1, 3),
    part("inner", choice("mode", "a", "b"), need("list")),
    items("parts", need("key"), if_named("label", "label")),
    values("texts", lambda value, path: need("x")({"x": value}, path)),
)


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        ({"name": "n"}, []),
        ({"size": 0}, ["p.name", "p.size"]),
        ({"name": "n", "size": None, "inner": {}}, ["p.inner.list"]),
        ({"name": "n", "inner": {"mode": "c", "list": [1]}}, ["p.inner.mode"]),
        ({"name": "n", "parts": [{"key": "k"}, {"label": "A b"}]}, ["p.parts[1].key", "p.parts[1].label"]),
        ({"name": "n", "texts": ["", "a"]}, ["p.texts[0].x"]),
    ],
)
def test_faults_are_named_where_they_are(obj: dict[str, Any], fields: list[str]) -> None:
    assert [cause.field for cause in causes_by(TABLE, obj, "p")] == fields


@pytest.mark.parametrize(
    ("volume", "fields"),
    [
        ({"emptyDir": {}}, []),
        ({}, ["volumes[0]"]),
        # The first in the server's order counts, whatever the order in which they are given.
        (
            {"configMap": {"name": "c"}, "secret": {}},
            ["volumes[0].secret.secretName", "volumes[0].configMap"],
        ),
        ({"nfs": {"path": "x"}}, ["volumes[0].nfs.server", "volumes[0].nfs.path"]),
        ({"projected": {"sources": [{"secret": {}}]}}, ["volumes[0].projected.sources[0].secret.name"]),
    ],
)
def test_a_volume_has_one_source(volume: dict[str, Any], fields: list[str]) -> None:
    causes, names = volume_causes({"volumes": [{"name": "v"} | volume]}, "spec")
    assert [cause.field.removeprefix("spec.") for cause in causes] == fields
    # No mount knows a volume with a fault.
    assert set(names) == (set() if fields else {"v"})


def test_a_pod_is_checked_in_the_order_of_a_real_server() -> None:
    spec = {
        "tolerations": [{"operator": "Equal"}],
        "restartPolicy": "Sometimes",
        "volumes": [{"name": "v"}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
    }
    assert [cause.field for cause in pod_spec_causes(spec, "spec")] == [
        "spec.volumes[0]",
        "spec.containers",
        "spec.restartPolicy",
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "spec.tolerations[0].operator",
    ]
