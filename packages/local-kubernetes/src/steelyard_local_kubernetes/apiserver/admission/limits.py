"""LimitRanges: the requests and limits that containers get where they name none, and those that are refused.

Pure decisions on a namespace's LimitRanges, in the real server's words; `server.py` asks for them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.admission.requests import pod_amounts
from steelyard_local_kubernetes.apiserver.amounts import Amount, Amounts, amount, amounts, texts

BUCKET = "limitranges"
LIMITED = ("pods", "persistentvolumeclaims")
ANNOTATION = "kubernetes.io/limit-ranger"
_NONE: Amounts = {}


def add_defaults(ranges: Sequence[Json], pod: Json) -> None:
    """Set what containers leave out, and say so in an annotation."""
    for limit_range in ranges:
        requests, limits = _NONE, _NONE
        for item in _items(limit_range, "Container"):
            requests = requests | amounts(mapping(item, "defaultRequest"))
            limits = limits | amounts(mapping(item, "default"))
        words: list[str] = []
        for field, word in (("containers", "container"), ("initContainers", "init container")):
            for container in sequence(pod["spec"], field):
                words += _add_defaults(container, word, requests, limits)
        if words:
            notes = pod["metadata"].setdefault("annotations", {})
            notes[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(words)}"


def _add_defaults(container: Json, word: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    resources = container.get("resources") or {}
    for field, defaults, said in (("requests", requests, "request"), ("limits", limits, "limit")):
        amounts_set = mapping(resources, field)
        missing = {name: value for name, value in defaults.items() if name not in amounts_set}
        if missing:
            resources[field] = {**amounts_set, **texts(missing)}
            container["resources"] = resources
            yield f"{', '.join(sorted(missing))} {said} for {word} {container.get('name') or ''}"


def violations(ranges: Sequence[Json], bucket: str, obj: Json) -> list[str]:
    """Return what the first range that is broken says of an object."""
    for limit_range in ranges:
        if said := list(_violations(limit_range, bucket, obj)):
            return list(dict.fromkeys(said))
    return []


def refusal_text(said: Sequence[str]) -> str:
    """Several faults as one text, in the form of Go's aggregates."""
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"


def _items(limit_range: Json, kind: str) -> Iterator[Json]:
    return (item for item in sequence(mapping(limit_range, "spec"), "limits") if item.get("type") == kind)


def _violations(limit_range: Json, bucket: str, obj: Json) -> Iterator[str]:
    if bucket == "persistentvolumeclaims":
        requests = amounts(mapping(obj["spec"], "resources", "requests"))
        for item in _items(limit_range, "PersistentVolumeClaim"):
            for name, bound in _bounds(item, "min"):
                yield from _below("PersistentVolumeClaim", name, bound, requests, _NONE)
            for name, bound in _bounds(item, "max"):
                yield from _above_request("PersistentVolumeClaim", name, bound, requests)
        return
    for item in sequence(mapping(limit_range, "spec"), "limits"):
        spec = obj["spec"]
        if item.get("type") == "Container":
            for container in (*sequence(spec, "containers"), *sequence(spec, "initContainers")):
                resources = container.get("resources") or {}
                own = amounts(mapping(resources, "requests")), amounts(mapping(resources, "limits"))
                yield from _limit_violations("Container", item, *own)
        elif item.get("type") == "Pod":
            yield from _limit_violations(
                "Pod", item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
            )


def _limit_violations(kind: str, item: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    rules: tuple[tuple[str, Callable[..., Iterable[str]]], ...] = (
        ("min", _below),
        ("max", _above),
        ("maxLimitRequestRatio", _ratio),
    )
    for field, rule in rules:
        for name, bound in _bounds(item, field):
            yield from rule(kind, name, bound, requests, limits)


def _bounds(item: Json, field: str) -> Iterator[tuple[str, Amount]]:
    return ((name, amount(value)) for name, value in sorted(mapping(item, field).items()))


def _below(kind: str, name: str, least: Amount, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"minimum {name} usage per {kind} is {least}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        yield f"{text}.  No request is specified"
    elif request.number < least.number:
        yield f"{text}, but request is {request}"
    elif limit is not None and limit.number < least.number:
        yield f"{text}, but limit is {limit}"


def _above_request(kind: str, name: str, most: Amount, requests: Mapping[str, Amount]) -> Iterator[str]:
    text = f"maximum {name} usage per {kind} is {most}"
    request = requests.get(name)
    if request is None:
        yield f"{text}.  No request is specified"
    elif request.number > most.number:
        yield f"{text}, but request is {request}"


def _above(kind: str, name: str, most: Amount, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"maximum {name} usage per {kind} is {most}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        yield f"{text}.  No limit is specified"
    elif limit.number > most.number:
        yield f"{text}, but limit is {limit}"
    elif request is not None and request.number > most.number:
        yield f"{text}, but request is {request}"


def _ratio(kind: str, name: str, most: Amount, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {most}, but "
    request, limit = requests.get(name), limits.get(name)
    if request is None or not request.number:
        yield f"{text}no request is specified or request is 0"
    elif limit is None or not limit.number:
        yield f"{text}no limit is specified or limit is 0"
    elif limit.number > most.number * request.number:
        yield f"{text}provided ratio is {limit.number / request.number:.6f}"
