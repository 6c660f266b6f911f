"""The session that every client goes through, as far as it is not the client's own words: names, objects, waiting."""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

IMAGE = "localhost/steelyard/steps"
PAGES, LIMIT = 5, 2
SECONDS = 240.0


@dataclass(frozen=True)
class SessionTarget:
    """A server, a namespace that is not there yet, and whether Pods run there."""

    kubeconfig: str
    namespace: str
    pods: bool


def place() -> SessionTarget:
    """The place that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig")
    parser.add_argument("namespace")
    parser.add_argument("--pods", action="store_true")
    return SessionTarget(**vars(parser.parse_args()))


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"session": "clients"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, script: str) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, replicas: int = 0) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def definition(group: str) -> dict[str, Any]:
    """A definition of Widgets with a status and a scale."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version | {"subresources": {"status": {}, "scale": scale}}],
        },
    }


def eventually(probe: Callable[[], object], what: str) -> Any:
    """Answer of a probe once it is something."""
    end = time.monotonic() + SECONDS
    while not (answer := probe()):
        assert time.monotonic() < end, f"not within {SECONDS:g} s: {what}"
        time.sleep(0.05)
    return answer


def check(actual: object, expected: object) -> None:
    assert actual == expected, f"{actual!r} and not {expected!r}"
