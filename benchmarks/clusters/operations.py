"""Measures operations of a client: wall time and requests. It imports nothing of ours: both environments run it."""

import json
import os
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import Any

import yaml

REPEATED = 3
Figures = dict[str, dict[str, float]]


def server() -> str:
    """Return the address of the front, from the kubeconfig."""
    with open(os.environ["KUBECONFIG"]) as file:
        return str(yaml.safe_load(file)["clusters"][0]["cluster"]["server"])


def count(url: str) -> int:
    """Return the number of requests since the last call."""
    with urllib.request.urlopen(f"{url}/count") as answer:
        return int(json.load(answer))


def measure(operations: Mapping[str, tuple[Callable[[], Any], Any]], *, once: bool = False) -> Figures:
    """Return the best time of each operation, in order, and its requests in that run.

    Each operation has the answer that it must give: a quick failure does not count as a measurement.
    """
    url, figures = server(), Figures()
    for name, (operation, wanted) in operations.items():
        runs = []
        for _ in range(1 if once or name in ("create", "delete") else REPEATED):
            count(url)
            began = time.perf_counter()
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                answer = operation()
            seconds = time.perf_counter() - began
            if answer != wanted:
                raise SystemExit(f"{name}: {answer!r} is not {wanted!r}")
            runs.append({"seconds": seconds, "requests": count(url)})
        figures[name] = min(runs, key=lambda run: run["seconds"])
    return figures
