"""Random sequences of writes by a fixed seed (suite B): every answer, the events of watches, and the list at the
end.

Two watches run: of all objects, and of those with a label. Owners are left out: when a collector acts on them differs
from run to run. Every write names its manager, since the embedded server keeps managers from then on.
"""

import random
from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import (
    Case,
    Events,
    Step,
    Watch,
    apply,
    delete,
    get,
    json_patch,
    merge,
    post,
    put,
    strategic,
)
from tests.kubernetes_differential.samples import MAPS, config_map

SEQUENCES, LENGTH = 6, 24
NAMES = ("a", "b", "c")
CHANGED = (
    "type",
    "object.metadata.name",
    "object.metadata.labels",
    "object.metadata.finalizers",
    "object.metadata.deletionTimestamp",
    "object.data",
)
ANSWER = ("kind", "reason", "message", "data", "metadata.labels", "metadata.finalizers", "metadata.name")
SELECTED = "labelSelector=of=it"
LAST = "written-last"  # tells a watch that all has come


def labels(draw: random.Random) -> Json:
    return {"of": draw.choice(["it", "it", "none"]), "n": str(draw.randrange(3))}


def content(draw: random.Random, name: str) -> Json:
    more: dict[str, Any] = {"labels": labels(draw)}
    if draw.random() < 0.3:
        more["finalizers"] = ["a.b/held"]
    return config_map(
        name, {key: str(draw.randrange(3)) for key in draw.sample("xyz", draw.randrange(3))}, **more
    )


def written(draw: random.Random, name: str) -> Step:  # noqa: PLR0911 - one for each kind of write
    path = f"{MAPS}/{name}?fieldManager=writer"
    match draw.randrange(11):
        case 0 | 1 | 2:
            return post(f"{MAPS}?fieldManager=writer", content(draw, name), compare=ANSWER)
        case 3:
            return put(path, content(draw, name), compare=ANSWER)
        case 4:
            return merge(path, {"data": {draw.choice("xyz"): draw.choice([None, "1", "2"])}}, compare=ANSWER)
        case 5:
            return merge(path, {"metadata": {"labels": labels(draw)}}, compare=ANSWER)
        case 6:
            return merge(
                path, {"metadata": {"finalizers": draw.choice([None, ["a.b/held"]])}}, compare=ANSWER
            )
        case 7:
            operation = {"op": draw.choice(["add", "replace", "test"]), "path": "/data/x", "value": "1"}
            return json_patch(path, operation, compare=ANSWER)
        case 8:
            return strategic(path, {"data": {draw.choice("xyz"): str(draw.randrange(3))}}, compare=ANSWER)
        case 9:
            wanted = config_map(name, {draw.choice("xyz"): str(draw.randrange(3))})
            return apply(
                f"{MAPS}/{name}",
                wanted,
                draw.choice(["one", "two"]),
                force=draw.random() < 0.5,
                compare=ANSWER,
            )
        case _:
            return delete(f"{MAPS}/{name}", compare=("kind", "reason", "status", "metadata.finalizers"))


def sequence(number: int) -> Iterator[Step]:
    draw = random.Random(f"writes {number}")
    everything = f"{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt"
    yield get(everything, name="start", compare=("kind",))
    since = "watch=1&resourceVersion={{start:metadata.resourceVersion}}"
    yield Watch("all", f"{everything}&{since}")
    yield Watch("selected", f"{MAPS}?{SELECTED}&{since}")
    for _ in range(LENGTH):
        yield written(draw, draw.choice(NAMES))
    yield get(everything, compare=("items",))
    yield post(MAPS, config_map(LAST, labels={"of": "it"}), compare=("kind",))
    yield Events("all", compare=CHANGED, last=LAST)
    yield Events("selected", compare=CHANGED, last=LAST)


CASES = [Case(f"writes: sequence {number}", *sequence(number), managed=True) for number in range(SEQUENCES)]
