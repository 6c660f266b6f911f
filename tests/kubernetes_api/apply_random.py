"""Random sequences of applies, updates and patches by several managers, the same for the same seed."""

import random

from steelyard_common.types import Json
from tests.kubernetes_api.apply_cases import FORCE, STRATEGIC, UNTRACKED, WIDGET, Step, apply, merge, widget


def random_steps(seed: int, count: int = 14) -> list[Step]:
    """Applies, updates and patches of a few managers, on a custom object or on a ReplicaSet."""
    rng = random.Random(seed)
    nested = seed % 3 == 2
    make = _random_replica_set if nested else _random_widget
    path = "APPS/replicasets/r" if nested else WIDGET
    steps: list[Step] = []
    if rng.random() < 0.5:
        made = f"{path.rpartition('/')[0]}?fieldManager=made"
        steps += [Step("POST", made, make(rng)), merge(path, "x", UNTRACKED)]
    elif nested:
        steps.append(apply(path, "a", make(rng)))
    return steps + [_random_step(rng, path, make(rng), nested) for _ in range(count)]


def _random_step(rng: random.Random, path: str, config: Json, nested: bool) -> Step:
    manager, kind = rng.choice("abc"), rng.random()
    if kind < 0.6:
        if nested and rng.random() < 0.6:
            _leave_out(rng, config["spec"])
        return apply(path, manager, config, FORCE if rng.random() < 0.5 else "")
    if kind < 0.75:
        return merge(path, f"u{manager}", {"spec": config["spec"]})
    if nested and kind < 0.82:
        return Step("PATCH", f"{path}?fieldManager=s{manager}", {"spec": config["spec"]}, STRATEGIC)
    return Step("PUT", f"{path}?fieldManager=p{manager}", config)


def _some(rng: random.Random, names: str, least: int = 0) -> list[str]:
    return rng.sample(names, rng.randint(least, len(names)))


def _random_widget(rng: random.Random) -> Json:
    def item(name: str) -> Json:
        choices: Json = {
            "weight": rng.randint(0, 1),
            "words": [rng.choice("pq")],
            "protocol": rng.choice(["TCP", "UDP"]),
        }
        return {"name": name} | {key: value for key, value in choices.items() if rng.random() < 0.4}

    choices: Json = {
        "size": rng.randint(0, 1),
        "colour": rng.choice("xy"),
        "items": [item(name) for name in _some(rng, "abc")],
        "pairs": [item(name) for name in _some(rng, "ab")],
        "words": _some(rng, "klm"),
        "numbers": rng.sample([1, 2, 10], rng.randint(1, 3)),
        "whole": _some(rng, "uv"),
        "label": dict.fromkeys(_some(rng, "xy"), "1"),
        "map": {key: rng.choice("12") for key in _some(rng, "xyz")},
        "points": {key: dict.fromkeys(_some(rng, "xy"), rng.randint(0, 1)) for key in _some(rng, "mn")},
        "free": rng.choice([{}, {"q": 1}, {"q": {"r": 1}}, {"q": [1]}, {"s": "t"}]),
        "port": rng.choice([1, "1"]),
        "count": rng.choice([5, 6]),
    }  # fmt: skip
    obj = widget(**{key: value for key, value in choices.items() if rng.random() < 0.4})
    if rng.random() < 0.3:
        obj["metadata"]["labels"] = {key: rng.choice("12") for key in _some(rng, "xy")}
    return obj


def _random_replica_set(rng: random.Random) -> Json:
    def container(name: str) -> Json:
        choices: Json = {
            "env": [{"name": key, "value": rng.choice("12")} for key in _some(rng, "ABC")],
            "ports": [{"containerPort": ord(key), "protocol": rng.choice(["TCP", "UDP"])} for key in _some(rng, "PQ")],
            "command": _some(rng, "pq"),
            "resources": {"limits": {"cpu": rng.choice("12")}},
            "volumeMounts": [{"name": "v", "mountPath": f"/{key}"} for key in _some(rng, "ab", 1)],
        }  # fmt: skip
        fields = {key: value for key, value in choices.items() if rng.random() < 0.4}
        return {"name": name, "image": rng.choice(["localhost/x", "localhost/y"]), **fields}

    pod: Json = {"containers": [container(name) for name in _some(rng, "mno", 1)]}
    pod["volumes"] = [{"name": "v", "emptyDir": {}}]
    if rng.random() < 0.4:
        pod["nodeSelector"] = dict.fromkeys(_some(rng, "xy"), "1")
    if rng.random() < 0.4:
        pod["tolerations"] = [{"key": key, "operator": "Exists"} for key in _some(rng, "tu")]
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": spec}


def _leave_out(rng: random.Random, spec: Json) -> None:
    """Remove fields that others may manage: they need not be applied."""
    if rng.random() < 0.4:
        del spec["replicas"]
    for container in spec["template"]["spec"]["containers"]:
        if rng.random() < 0.5:
            del container["image"]
