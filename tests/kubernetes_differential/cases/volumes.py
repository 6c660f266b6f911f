"""Files of volumes that several sources share, and variables that come from files."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, post
from tests.kubernetes_differential.samples import DRY, PODS, container, pod

FILE: Json = {"volumeName": "v", "path": "f", "key": "K"}
NAME: Json = {"fieldPath": "metadata.name"}


def keys(kind: str, name: str, *paths: str) -> Json:
    return {kind: {"name": name, "items": [{"key": "k", "path": path} for path in paths]}}


def fields(*paths: str) -> Json:
    return {"downwardAPI": {"items": [{"path": path, "fieldRef": NAME} for path in paths]}}


def token(path: str) -> Json:
    return {"serviceAccountToken": {"path": path}}


SOURCES: list[list[Any]] = [
    [keys("secret", "s", "a"), keys("configMap", "m", "a")],
    [keys("secret", "s", "a", "a", "b", "a/b")],
    [keys("configMap", "m", "a"), fields("a", "b", "b")],
    [fields("a"), token("a")],
    [token("a"), keys("configMap", "m", "a")],
    [keys("configMap", "m", "a", ""), keys("secret", "", "", "a")],
    [keys("configMap", "m", "a") | keys("secret", "s", "b")],
    [keys("configMap", "m", "a") | token("t"), {}, keys("configMap", "m", "a") | fields("a")],
    [keys("configMap", "m", "../a", "../a", "a/", "a")],
    [keys("configMap", "m", "a", "a/b", "a/b/c", "ab"), fields("a/b/d", "b"), token("b/t")],
    [
        keys("configMap", "m", "x/y", "x", "x/", "x//z"),
        keys("configMap", "n", "x/y/z"),
        keys("secret", "m", "x/z"),
    ],
]
CASES = [
    Case(
        "pods: files of several sources",
        *(
            post(
                f"{PODS}?{DRY}",
                pod("p", volumes=[{"name": "v", "projected": {"sources": sources}}]),
                compare=("kind", "message", "reason", "details", "code"),
            )
            for sources in SOURCES
        ),
    ),
    Case(
        "pods: variables of files",
        *(
            post(
                f"{PODS}?{DRY}",
                container(env=[{"name": "A", "valueFrom": {"fileKeyRef": FILE, **source}}]),
                compare=("kind", "message", "reason", "details", "code", "spec.containers.0.env"),
            )
            for source in ({}, {"fieldRef": NAME})
        ),
    ),
]
