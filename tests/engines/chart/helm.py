"""The program helm on the chart of this tree, and kubectl on the cluster that it installs on."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from steelyard_common.types import Json
from tests.engines.build import binaries, helm
from tests.source import ROOT

CHART = ROOT / "deploy" / "chart"
NAMESPACE = RELEASE = "steelyard"


class ProgramFailed(AssertionError):
    """A program ended with another status than 0; the message has its output."""


def run(*command: str | Path, stdin: str | None = None, seconds: float = 300) -> str:
    """Return what a program prints. Raises ProgramFailed."""
    done = subprocess.run(
        list(map(str, command)), input=stdin, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def template_text(values: Json, kubernetes: str = "1.34.4") -> str:
    """Return the objects of the chart for these values, as YAML. Raises ProgramFailed where the chart refuses them.

    The kinds, most of the text, are among them where the values ask for them.
    """
    return _template(json.dumps({"customResourceDefinitions": False} | values), kubernetes)


@cache
def _template(values: str, kubernetes: str) -> str:
    return run(
        *(helm(), "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", kubernetes),
        *("--values", "-"),
        stdin=values,
    )


def template(values: Json, kubernetes: str = "1.34.4") -> list[Json]:
    """Return the objects of the chart for these values. Raises ProgramFailed where the chart refuses them."""
    return [obj for obj in yaml.safe_load_all(template_text(values, kubernetes)) if obj]


def pods(objects: list[Json]) -> Iterator[Json]:
    """Yield the specification of each Pod that the objects make."""
    for obj in objects:
        if obj["kind"] == "Pod":
            yield obj["spec"]
        elif "template" in (spec := obj.get("spec", {}).get("jobTemplate", obj).get("spec", {})):
            yield spec["template"]["spec"]


def named(objects: list[Json], kind: str) -> dict[str, Json]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


@dataclass(frozen=True)
class Cluster:
    """A cluster by its kubeconfig, and the release in it."""

    kubeconfig: Path

    def helm(self, *arguments: str | Path, seconds: float = 600, values: Json | None = None) -> str:
        words: Sequence[str | Path] = (helm(), "--kubeconfig", self.kubeconfig, "--namespace", NAMESPACE)
        more = ("--values", "-") if values is not None else ()
        stdin = None if values is None else json.dumps(values)
        return run(*words, *arguments, *more, stdin=stdin, seconds=seconds)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, seconds: float = 300) -> str:
        program = binaries() / "kubectl"
        return run(
            program,
            "--kubeconfig",
            self.kubeconfig,
            "-n",
            NAMESPACE,
            *arguments,
            stdin=stdin,
            seconds=seconds,
        )

    def get(self, *arguments: str) -> Any:
        """Return an object, or a list of them."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))
