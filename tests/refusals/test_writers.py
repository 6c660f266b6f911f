"""Every module that writes to the API is known here, with the table in which its writes are refused."""

import ast
from pathlib import Path

from tests.source import place, short_name

CALLS = frozenset({"create", "patch", "replace", "delete"})
PARTS = ("steelyard_kube", "steelyard_local_kubernetes", "local", "operator", "services")
WRITERS = {
    "steelyard_kube/events.py": "its writes are counted in every table here",
    "steelyard_kube/leader.py": "a lease is renewed at a fixed pace: steelyard_kube/test_leader.py",
    "steelyard_local_kubernetes/controllers/adoption.py": "test_embedded.py",
    "steelyard_local_kubernetes/controllers/garbage/run.py": "test_garbage.py",
    "steelyard_local_kubernetes/controllers/sync.py": "test_embedded.py",
    "steelyard_local_kubernetes/controllers/sync_budget.py": "test_embedded.py",
    "steelyard_local_kubernetes/controllers/writes.py": "test_embedded.py",
    "steelyard_local_kubernetes/kubelet/heartbeat.py": "a node says at a fixed pace that it is there",
    "steelyard_local_kubernetes/kubelet/kubelet.py": "the Node, at the start and at a fixed pace",
    "steelyard_local_kubernetes/kubelet/pod_object.py": "test_node.py",
    "steelyard_local_kubernetes/kubelet/scheduler.py": "test_node.py",
    "steelyard_local_kubernetes/kubelet/taints.py": "test_node.py",
    "steelyard_local_kubernetes/kubelet/tokens.py": "asked for at a fixed pace",
    "steelyard_local_kubernetes/queues/writes.py": "test_embedded.py",
    "steelyard_local_kubernetes/installation.py": "the definitions, once at the start, without which the process ends",
    "operator/controller.py": "test_operator.py",
    "operator/ray/applying.py": "test_ray_objects.py",
    "operator/ray/key.py": "one Secret, before anything is served",
    "operator/ray/run.py": "test_ray_objects.py",
    "operator/ray/serving/reviews.py": "questions, not writes",
    "operator/writes.py": "test_operator.py",
    "services/orchestrator/edge.py": "test_orchestrator.py",
    "services/orchestrator/namespaces.py": "test_orchestrator.py",
    "services/orchestrator/secrets.py": "test_orchestrator.py",
}


def writes(path: Path) -> bool:
    """Return whether a module calls a writing method of something that it calls a cluster."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CALLS
        and ast.unparse(node.func.value).lstrip("_").split(".")[-1].lstrip("_") == "cluster"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_each_module_that_writes_to_the_api_has_a_table() -> None:
    modules = {
        short_name(path)
        for part in PARTS
        for path in place(part).rglob("*.py")
        if not path.name.startswith(("test_", "conftest", "testing")) and "simulation" not in path.parts
    }
    assert {name for name in modules if writes(place(name))} == WRITERS.keys()
