"""Nodes: taints, networks of Pods, and what a change may not touch."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, delete, merge, post
from tests.kubernetes_differential.samples import DRY

NODES = "/api/v1/nodes"
WORDS = ("message", "reason", "details", "code", "kind", "spec")
# What a change may not touch: a real cluster's controller of Nodes changes taints at any time.
FIXED = (
    "message",
    "reason",
    "details",
    "spec.podCIDR",
    "spec.podCIDRs",
    "spec.providerID",
    "spec.externalID",
    "spec.unschedulable",
)
# A real server adds it to each new Node, which a controller takes away; here none would.
NEW: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
TAINT: Json = {"key": "a", "value": "b", "effect": "NoExecute"}
TIME = "2020-01-01T00:00:00Z"
WRONG_TAINTS: list[list[Json]] = [
    [{}], [{"key": "a"}], [{"effect": "NoSchedule"}], [TAINT | {"effect": "foo"}], [TAINT | {"effect": ""}],
    [TAINT | {"key": "a b"}], [TAINT | {"key": "a/b/c"}], [TAINT | {"key": "A.b/c"}], [TAINT | {"value": "a b"}],
    [TAINT | {"value": "x" * 64}], [TAINT | {"value": "-" + "x" * 64}], [TAINT, TAINT],
    [TAINT | {"timeAdded": TIME}, TAINT | {"value": "c", "timeAdded": TIME}],
    [TAINT, TAINT | {"effect": "NoSchedule"}, TAINT | {"effect": "foo"}, TAINT | {"effect": "foo"}],
    [TAINT, TAINT, TAINT], [TAINT | {"timeAdded": TIME}],
]  # fmt: skip
NETWORKS: list[Json] = [
    {"podCIDR": "10.0.0.0/24"}, {"podCIDRs": ["10.0.0.0/24"]}, {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
    {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.1.0/24", "fd00::/64"]},
    {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
    {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}, {"podCIDRs": ["10.0.0.0/24", "fd00::/64", "fd01::/64"]},
    {"podCIDRs": ["fd00::/64", "fd01::/64"]}, {"podCIDRs": ["x"]}, {"podCIDRs": ["10.0.0.0/24", "x"]},
    {"podCIDRs": ["10.0.0.0"]}, {"podCIDR": "x"}, {"podCIDR": ""}, {"podCIDRs": [""]}, {"podCIDRs": []},
    {"podCIDRs": ["10.0.0.1/24"]}, {"podCIDRs": ["10.0.0.0/33"]}, {"podCIDRs": ["FD00:0::/64"]},
    {"podCIDRs": ["10.0.0.0/-1"]}, {"podCIDRs": ["10.0.0.0/255.0.0.0"]},
    {"podCIDRs": ["10.0.0.0/24", "10.0.0.0/24", "x"]},
]  # fmt: skip
CHANGES: list[Json] = [
    {"taints": [NEW, TAINT, TAINT]},
    {"taints": [NEW, {"key": "a b", "effect": "foo"}]},
    {"podCIDR": "10.0.0.0/24"},
    {"podCIDR": "10.0.1.0/24"},
    {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
    {"podCIDRs": ["10.0.1.0/24"]},
    {"podCIDRs": None, "podCIDR": None},
    {"podCIDR": None},
    {"providerID": "a"},
    {"providerID": "b"},
    {"providerID": None},
    {"externalID": "a"},
    {"configSource": {}},
    {"unschedulable": True, "taints": [NEW, TAINT]},
]


def node(spec: Json, /, name: str = "strange", **more: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"taints": [NEW], **spec}, **more}


def tried(*specs: Json, **more: Any) -> list[Any]:
    return [post(f"{NODES}?{DRY}", node(spec, **more), compare=WORDS) for spec in specs]


CASES = [
    Case("nodes: taints", *tried(*({"taints": [NEW, *taints]} for taints in WRONG_TAINTS))),
    Case("nodes: networks of Pods", *tried(*NETWORKS)),
    Case(
        "nodes: several faults",
        *tried({"taints": [{"key": "", "value": "a b"}], "podCIDRs": ["x", "y"], "externalID": "e"}),
        *tried({}, {"configSource": {"configMap": {"name": "a"}}, "externalID": "e"}),
        *tried({}, status={"capacity": {"cpu": "-1"}}),
        *tried({}, status={"allocatable": {"pods": "1500m"}}),
        *tried({}, status={"allocatable": {"a.b/c": "1500m"}}),
        *tried({}, status={"capacity": {"cpu": "1500m", "a b": "1"}}),
    ),
    Case(
        "nodes: changed",
        delete(f"{NODES}/changed", compare=("x",)),
        post(NODES, node({}, "changed"), compare=("kind",)),
        *[merge(f"{NODES}/changed", {"spec": spec}, compare=FIXED) for spec in CHANGES],
        *[
            merge(
                f"{NODES}/changed/status",
                {"status": status},
                compare=("message", "reason", "details", "status.capacity"),
            )
            for status in (
                {"capacity": {"cpu": "-1"}},
                {"addresses": [{"type": "Hostname", "address": "a"}, {"type": "Hostname", "address": "a"}]},
                {"capacity": {"cpu": "2"}},
            )
        ],
        delete(f"{NODES}/changed", compare=("kind",)),
        namespaced=False,
    ),
]
