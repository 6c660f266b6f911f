"""Rules for what a user may write: names, labels, annotations, quantities, images, namespaces.

They are Kubernetes' own, from `steelyard_schema/object_names.py`, which the embedded API server refuses by as well; a
test holds them against it. Each function answers with the faults of a value at a path.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from steelyard.clusters.errors import Fault
from steelyard_schema.object_names import (
    ANNOTATION_BYTES,
    annotations_size,
    data_key_faults,
    huge_pages_faults,
    is_counted,
    key_faults,
    name_faults,
    resource_name_faults,
    value_faults,
    variable_faults,
)
from steelyard_schema.quantity import amount

LONGEST = Decimal(2**63 - 1)
_NAMED_SOURCES = {"persistentVolumeClaim": "claimName", "secret": "secretName", "configMap": "name"}
"""Sources of volumes that name another object, by the field that does."""
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?)(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)


def name(text: str, path: str, form: str = "subdomain", longest: int | None = None) -> Iterator[Fault]:
    """Yield the faults of a name; `longest` is a limit beyond Kubernetes' own, such as that of a derived name."""
    if not text:
        yield Fault(path, "is required")
        return
    if longest is not None and len(text) > longest:
        yield Fault(path, f"{shorten(text)} must be no more than {longest} characters")
    yield from (Fault(path, f"{shorten(text)}: {fault}") for fault in name_faults(text, form))


def namespace(text: str, path: str) -> Iterator[Fault]:
    return name(text, path, "label")


def labels(values: Mapping[str, str], path: str) -> Iterator[Fault]:
    for key, value in values.items():
        yield from (Fault(path, f"key {shorten(key)}: {fault}") for fault in key_faults(key))
        yield from (Fault(f"{path}.{key}", f"{shorten(value)}: {fault}") for fault in value_faults(value))


def annotations(values: Mapping[str, str], path: str) -> Iterator[Fault]:
    for key in values:
        # Kubernetes checks keys of annotations without regard to case, other than those of labels.
        yield from (Fault(path, f"key {shorten(key)}: {fault}") for fault in key_faults(key.lower()))
    if annotations_size(values) > ANNOTATION_BYTES:
        yield Fault(path, f"may not be more than {ANNOTATION_BYTES} bytes")


def quantity(value: str | int | float, path: str) -> Iterator[Fault]:
    try:
        number = amount(str(value))
    except ValueError as error:
        yield Fault(path, str(error))
        return
    if number < 0:
        yield Fault(path, f"{value} must be greater than or equal to 0")


def resources(
    requests: Mapping[str, str | int | float], limits: Mapping[str, str | int | float], path: str
) -> Iterator[Fault]:
    """Yield the faults of a container's requests and limits, and of the two together."""
    bad: set[str] = set()
    for field, amounts in (("requests", requests), ("limits", limits)):
        for resource, value in amounts.items():
            where = f"{path}.{field}.{resource}"
            faults = [Fault(where, fault) for fault in resource_name_faults(resource)]
            faults += quantity(value, where)
            if not faults and is_counted(resource) and amount(str(value)) % 1:
                faults.append(Fault(where, f"{value} must be an integer"))
            if not faults and resource.startswith("hugepages-"):
                huge = huge_pages_faults(resource, amount(str(value)))
                faults += [Fault(where, f"{value} {fault}") for fault in huge]
            if faults:
                bad.add(resource)
            yield from faults
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        yield Fault(path, "huge pages need an amount of cpu or memory beside them")
    for resource, value in requests.items():
        if resource not in bad:
            yield from _pair(resource, value, limits.get(resource), f"{path}.requests.{resource}")


def _pair(
    resource: str, request: str | int | float, limit: str | int | float | None, path: str
) -> Iterator[Fault]:
    if limit is None:
        if is_counted(resource):  # a device cannot be promised twice
            yield Fault(path, "needs a limit of the same amount: it cannot be shared")
        return
    requested, most = min(amount(str(request)), LONGEST), min(amount(str(limit)), LONGEST)
    if is_counted(resource) and requested != most:
        yield Fault(path, f"{request} must be equal to the limit of {limit}")
    elif requested > most:
        yield Fault(path, f"{request} must be less than or equal to the limit of {limit}")


def image(text: str, path: str) -> Iterator[Fault]:
    """Yield the faults of an image's reference. Kubernetes takes any text; no container starts with a wrong one."""
    if not _IMAGE.fullmatch(text):
        yield Fault(path, f"{shorten(text)} is not the name of an image, such as quay.io/team/ray:2.52")


def variable(text: str, path: str) -> Iterator[Fault]:
    yield from (Fault(path, f"{shorten(text)}: {fault}") for fault in variable_faults(text))


def data_key(text: str, path: str) -> Iterator[Fault]:
    """Yield the faults of a key in a Secret or a ConfigMap."""
    if not text:
        yield Fault(path, "is required")
        return
    yield from (Fault(path, f"{shorten(text)}: {fault}") for fault in data_key_faults(text))


def label_name(text: str, path: str) -> Iterator[Fault]:
    """Yield the faults of a name that an object carries as the value of a label, such as that of its queue."""
    yield from name(text, path, longest=63)


def source(values: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """Yield the faults of what a volume's source names; the API server checks its other fields."""
    for kind, fields in values.items():
        given = fields if isinstance(fields, Mapping) else {}
        if kind in _NAMED_SOURCES:
            field = _NAMED_SOURCES[kind]
            yield from name(str(given.get(field) or ""), f"{path}.{kind}.{field}")
        if kind == "emptyDir" and given.get("sizeLimit") is not None:
            yield from quantity(given["sizeLimit"], f"{path}.{kind}.sizeLimit")


def shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
