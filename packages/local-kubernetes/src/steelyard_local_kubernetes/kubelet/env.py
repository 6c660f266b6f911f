"""A container's environment, from its Pod and the ConfigMaps and Secrets that it names."""

import base64
import json
import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from types import MappingProxyType

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.quantity import number
from steelyard_schema.bounds import ARGUMENT_BYTES
from steelyard_schema.variables import START_BYTES, TooLarge, count_bytes, expand

_SHOWN = 100  # characters of a name in a message

Objects = Mapping[
    tuple[str, str], Json | None
]  # by (ConfigMap, Secret or Token, name); None: there is no such object


class ConfigMissing(Exception):
    """The container cannot start yet: what it refers to is not there."""


class VolumeMissing(ConfigMissing):
    """A volume cannot be made yet: what it shows is not there. The container stays in creation, as on a cluster."""


class UnsupportedField(Exception):
    """The Pod asks for something that this kubelet does not do; it fails and says what."""


class Room:
    """Bytes that are left for the texts of one container. Each is taken before the next text is made."""

    def __init__(self, most: int = START_BYTES) -> None:
        self._most = self._left = most

    def take(self, what: str, text: str, most: int = ARGUMENT_BYTES) -> str:
        """Return the text. Raises TooLarge."""
        size = count_bytes(text)
        if size > most:
            raise TooLarge(f"{what} takes {size} bytes, and at most {most} can be given to a program")
        self.take_bytes(what, size)
        return text

    def take_bytes(self, what: str, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"{what} and what comes before it take more than {self._most} bytes")


def expand_text(what: str, text: str, known: Mapping[str, str], room: Room) -> str:
    """Return a text with its variables filled in. Raises TooLarge, which names it."""
    try:
        text = expand(text, known)
    except TooLarge as error:
        raise TooLarge(f"{what} {error}") from None
    return room.take(what, text)


@dataclass(frozen=True)
class Facts:
    """Facts that a Pod can ask about itself besides its manifest."""

    pod_ip: str
    host_ip: str
    node: str
    allocatable: Mapping[str, float] = field_of(default_factory=dict)


def field(path: str, pod: Json, facts: Facts) -> str:
    """The value of a fieldRef."""
    metadata = pod["metadata"]
    plain = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata["uid"],
        "spec.nodeName": facts.node,
        "spec.host": facts.node,  # its former name, which the API still takes
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    if path in plain:
        return str(plain[path])
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(mapping(metadata, match[1]).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = mapping(metadata, path.split(".")[1]).items()
        # Quoted, so that a value with a line break stays on its line.
        return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(pairs))
    raise UnsupportedField(f"fieldRef {path!r} is not implemented")


def resource_field(source: Json, container: Json, facts: Facts) -> str:
    """The value of a resourceFieldRef, in whole units; a limit that is not set is all that the node has."""
    kind, _, name = source["resource"].partition(".")
    if kind not in ("limits", "requests"):
        raise UnsupportedField(f"resourceFieldRef {source['resource']!r} is not implemented")
    amounts = mapping(container, "resources", kind)
    absent = facts.allocatable.get(name, 0.0) if kind == "limits" else 0.0
    amount = number(amounts[name]) if name in amounts else absent
    # As Kubernetes: rounded up, and a divisor of 0 counts as 1.
    return str(math.ceil(amount / (number(source.get("divisor") or "1") or 1.0)))


def contents(kind: str, name: str, objects: Objects, optional: bool) -> dict[str, bytes] | None:
    """The keys of a ConfigMap or Secret as bytes; None when it is absent and may be."""
    source = objects.get((kind, name))
    if source is None:
        if optional:
            return None
        raise ConfigMissing(f'{kind.lower()} "{name}" not found')
    data = mapping(source, "data")
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary = {key: base64.b64decode(value) for key, value in mapping(source, "binaryData").items()}
    return {**{key: str(value).encode() for key, value in data.items()}, **binary}


def _texts(kind: str, reference: Json, objects: Objects) -> dict[str, bytes] | None:
    """The keys that a variable can have: `binaryData` of a ConfigMap is for volumes alone."""
    values = contents(kind, reference["name"], objects, bool(reference.get("optional")))
    if values is None or kind == "Secret":
        return values
    binary = mapping(objects.get((kind, reference["name"])), "binaryData")
    return {key: value for key, value in values.items() if key not in binary}


def _from_key(kind: str, source: Json, namespace: str, objects: Objects) -> str | None:
    values = _texts(kind, source, objects)
    if values is None or source["key"] not in values:
        if source.get("optional"):
            return None
        raise ConfigMissing(f"couldn't find key {source['key']} in {kind} {namespace}/{source['name']}")
    return _text(values[source["key"]], source["key"], kind, source["name"])


def _text(value: bytes, key: str, kind: str, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # A container's runtime takes no other variables either (the CRI carries texts).
        raise ConfigMissing(f"key {key!r} of {kind.lower()} {name!r} is not text, as a variable is") from None


def _value_from(variable: Json, container: Json, pod: Json, facts: Facts, objects: Objects) -> str | None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        return field(source["fieldRef"]["fieldPath"], pod, facts)
    if "resourceFieldRef" in source:
        return resource_field(source["resourceFieldRef"], container, facts)
    if "configMapKeyRef" in source:
        return _from_key("ConfigMap", source["configMapKeyRef"], pod["metadata"]["namespace"], objects)
    if "secretKeyRef" in source:
        return _from_key("Secret", source["secretKeyRef"], pod["metadata"]["namespace"], objects)
    raise UnsupportedField(f"env {variable['name']!r}: valueFrom.{next(iter(source), '')} is not implemented")


def environment(
    container: Json,
    pod: Json,
    facts: Facts,
    objects: Objects,
    links: Mapping[str, str] = MappingProxyType({}),
    room: Room | None = None,
) -> dict[str, str]:
    """Return the variables that the container's manifest sets, in order; later ones see earlier ones, and `links`.

    Raises TooLarge as soon as they take more than `room` has.
    """
    room = room or Room()
    env: dict[str, str] = {}
    known = ChainMap(env, dict(links))

    def set_variable(name: str, value: str) -> None:
        # Linux counts name and value as one text.
        room.take(f"variable {shorten_name(name)}", f"{name}={value}")
        env[name] = value

    for source in sequence(container, "envFrom"):
        kind = "ConfigMap" if "configMapRef" in source else "Secret"
        reference = source["configMapRef" if kind == "ConfigMap" else "secretRef"]
        values = _texts(kind, reference, objects) or {}
        prefix, name = source.get("prefix", ""), reference["name"]
        for key, value in values.items():
            set_variable(prefix + key, _text(value, key, kind, name))
    for variable in sequence(container, "env"):
        if variable.get("valueFrom"):
            given = _value_from(variable, container, pod, facts, objects)
        else:
            try:
                given = expand(variable.get("value") or "", known)
            except TooLarge as error:
                raise TooLarge(f"variable {shorten_name(variable['name'])} {error}") from None
        if given is not None:
            set_variable(variable["name"], given)
    return env


def shorten_name(name: str) -> str:
    """Return a name as messages show it."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def references(pod: Json) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets that a Pod's containers and volumes name."""
    return set(_references(pod))


def _references(pod: Json) -> Iterator[tuple[str, str]]:
    spec = pod["spec"]
    for container in list_containers(spec):
        for source in sequence(container, "envFrom"):
            for field_name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if field_name in source:
                    yield kind, source[field_name]["name"]
        for variable in sequence(container, "env"):
            for field_name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                if field_name in mapping(variable, "valueFrom"):
                    yield kind, variable["valueFrom"][field_name]["name"]
    yield from references_of_volumes(spec)


def has_secret_variables(container: Json) -> bool:
    """Return whether variables of a container have values of Secrets."""
    named = (mapping(variable, "valueFrom") for variable in sequence(container, "env"))
    sources = sequence(container, "envFrom")
    return any("secretKeyRef" in source for source in named) or any("secretRef" in part for part in sources)


def references_of_volumes(spec: Json) -> Iterator[tuple[str, str]]:
    """The ConfigMaps and Secrets that the volumes show."""
    for volume in sequence(spec, "volumes"):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
        for part in sequence(volume, "projected", "sources"):
            for field_name, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                if field_name in part:
                    yield kind, part[field_name]["name"]
