"""Every text and file that the kubelet makes of a Pod has a bound, which is kept before it is made.

The table has each way in which a Pod can ask for more than it weighs. The memory is counted: a bound that is checked
afterwards would not help.
"""

import base64
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet import service_links, volumes
from steelyard_local_kubernetes.kubelet.env import (
    Facts,
    Objects,
    Room,
    VolumeMissing,
    environment,
    expand_text,
)
from steelyard_local_kubernetes.kubelet.splice import rewrite
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod
from steelyard_schema.variables import TooLarge

FACTS = Facts("127.200.0.7", "127.0.0.1", "node", {})
MOST = 96 << 20  # bytes that the work for one Pod may take for a moment
MIB = "x" * (1 << 20)
ENCODED = base64.b64encode(MIB.encode()).decode()
OBJECTS: Objects = {
    ("ConfigMap", "large"): {"data": {"k": MIB}},
    ("ConfigMap", "small"): {"data": {"k": "x" * 1000}},
    ("ConfigMap", "binary"): {"binaryData": {"k": ENCODED}},
    ("Secret", "large"): {"data": {"k": ENCODED}},
}
NAME_AND_KEY = {"name": "small", "key": "k"}


def doubling(levels: int) -> list[Json]:
    first: Json = {"name": "A0", "value": "xx"}
    return [first, *({"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, levels))]


def start(pod: Json, env: dict[str, str] | None = None) -> None:
    container, room = pod["spec"]["containers"][0], Room()
    made = environment(container, pod, FACTS, OBJECTS, {}, room)
    for field in ("command", "args"):
        for text in container.get(field, ()):
            expand_text(field, text, made, room)


def of_container(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: start(make_pod(make_container(**fields)))


def of_annotations(*variables: Json) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        pod = make_pod(make_container(env=list(variables)))
        pod["metadata"] |= {"uid": "u"}
        pod["metadata"]["annotations"] = {"large": "x" * 100_000, "larger": "x" * 200_000}
        start(pod)

    return attack


def of_volume(volume: Json) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        pod = make_pod(make_container(), volumes=[{"name": "v", **volume}])
        pod["metadata"] |= {"uid": "u"}
        pod["metadata"]["annotations"] = {"large": "x" * 200_000}
        volumes.volume_files({"name": "v", **volume}, pod, FACTS, OBJECTS)

    return attack


def of_path(folder: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)" * 5}]
    pod = make_pod(make_container(volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}])
    volumes.mounts(pod["spec"]["containers"][0], pod, {"v": folder}, {"A": "x" * 1000})


def of_services(folder: Path) -> None:
    ports = [{"port": number, "name": f"port-{number}"} for number in range(1, 1000)]
    spec = {"clusterIP": "127.9.128.1", "ports": ports}
    metadata = {"namespace": "default"}
    services = ({"metadata": {**metadata, "name": f"s-{n}"}, "spec": spec} for n in range(1000))
    service_links.variables(services)


def field_of(name: str) -> Json:
    return {"fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}


def shown(kind: str, name: str) -> Json:
    key = "configMap" if kind == "ConfigMap" else "secret"
    return {key: {"name": name, "items": [{"key": "k", "path": "p"}]}}


def items(number: int, **fields: object) -> list[Json]:
    return [{"path": f"p{n}", **fields} for n in range(number)]


ATTACKS: dict[str, Callable[[Path], None]] = {
    "variables that double": of_container(env=doubling(31)),
    "variables that double, 3000 of them": of_container(env=doubling(3000)),
    "one variable named often": of_container(
        env=[{"name": "A", "value": "x" * 100_000}, {"name": "B", "value": "$(A)" * 30_000}]
    ),
    "many large variables": of_container(
        env=[
            {"name": "A", "value": "x" * 100_000},
            *({"name": f"B{n}", "value": "$(A)"} for n in range(5000)),
        ]
    ),
    "args": of_container(env=[{"name": "A", "value": "x" * 100_000}], args=["$(A)$(A)"]),
    "many args": of_container(env=[{"name": "A", "value": "x" * 100_000}], args=["$(A)"] * 5000),
    "command": of_container(env=[{"name": "A", "value": "x" * 100_000}], command=["$(A)"] * 5000),
    "envFrom, one large key": of_container(envFrom=[{"configMapRef": {"name": "large"}}]),
    "envFrom, one Secret": of_container(envFrom=[{"secretRef": {"name": "large"}}]),
    "envFrom, one object often": of_container(
        envFrom=[{"prefix": f"P{n}", "configMapRef": {"name": "small"}} for n in range(10_000)]
    ),
    "valueFrom, one key often": of_container(
        env=[
            {"name": f"A{n}", "valueFrom": {"configMapKeyRef": NAME_AND_KEY}} for n in range(10_000)
        ]
    ),
    "valueFrom a large key": of_container(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "large", "key": "k"}}}]
    ),
    "a large annotation": of_annotations({"name": "A", "valueFrom": field_of("larger")}),
    "one annotation often": of_annotations(
        *({"name": f"A{n}", "valueFrom": field_of("large")} for n in range(10_000))
    ),
    "variables of Services": of_services,
    "subPathExpr": of_path,
    "paths without mounts": lambda folder: print(rewrite("/a " * 40_000, {"/a": "/folder" * 30})),
    "a volume of a ConfigMap": of_volume(
        {"configMap": {"name": "large", "items": items(5000, key="k")}}
    ),
    "a volume of binaryData": of_volume({"configMap": {"name": "binary", "items": items(5000, key="k")}}),
    "a volume of a Secret": of_volume({"secret": {"secretName": "large", "items": items(5000, key="k")}}),
    "a volume of fields": of_volume({"downwardAPI": {"items": items(5000, **field_of("large"))}}),
    "projected ConfigMaps": of_volume(
        {"projected": {"sources": [shown("ConfigMap", "large") for _ in range(5000)]}}
    ),
    "projected Secrets": of_volume({"projected": {"sources": [shown("Secret", "large") for _ in range(5000)]}}),
    "projected fields": of_volume(
        {"projected": {"sources": [{"downwardAPI": {"items": items(5000, **field_of("large"))}}]}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_the_start_ends_before_what_is_asked_is_made(attack: Callable[[Path], None], tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        with pytest.raises((TooLarge, VolumeMissing, OSError), match=r"more than \d+ bytes|at most \d+ can"):
            attack(tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before < MOST


def test_what_a_program_can_be_given_is_made() -> None:
    pod = make_pod(make_container(env=doubling(16), args=["$(A15)"]))
    start(pod)
    volume: Json = {"name": "v", "configMap": {"name": "large", "items": items(20, key="k")}}
    assert (
        len(volumes.volume_files(volume, make_pod(make_container(), volumes=[volume]), FACTS, OBJECTS)) == 20
    )
