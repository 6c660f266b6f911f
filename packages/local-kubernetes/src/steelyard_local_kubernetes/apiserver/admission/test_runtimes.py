"""RuntimeClasses of new Pods."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.admission.runtimes import BUCKET, check_runtime, set_runtime
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.store import Store

OVERHEAD = {"cpu": "1"}


@pytest.fixture
async def store() -> Store:
    store = Store(None)
    runtime: Json = {
        "metadata": {"name": "r", "uid": "u"},
        "handler": "h",
        "overhead": {"podFixed": OVERHEAD},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
    }
    store.put(BUCKET, runtime)
    return store


def pod(**spec: object) -> Json:
    return {"metadata": {"name": "p"}, "spec": spec}


async def test_a_pod_gets_what_its_class_says(store: Store) -> None:
    made = pod(runtimeClassName="r", nodeSelector={"c": "d"})
    _admit(store, made)
    assert made["spec"]["overhead"] == OVERHEAD
    assert made["spec"]["nodeSelector"] == {"c": "d", "a": "b"}
    assert made["spec"]["tolerations"][2:] == [{"key": "t", "operator": "Exists"}]


def _admit(store: Store, made: Json) -> None:
    set_runtime(store, made)
    check_runtime(store, made)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"runtimeClassName": "absent"}, 'RuntimeClass "absent" not found'),
        ({"overhead": OVERHEAD}, "Pod Overhead set without corresponding"),
        (
            {"runtimeClassName": "r", "overhead": {"cpu": "2"}},
            "doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "r", "nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b",
        ),
    ],
    ids=["no such class", "an overhead of its own", "another overhead", "another node"],
)
async def test_what_is_refused(store: Store, spec: Json, fault: str) -> None:
    with pytest.raises(Refusal) as refusal:
        _admit(store, pod(**spec))
    assert fault in refusal.value.message
