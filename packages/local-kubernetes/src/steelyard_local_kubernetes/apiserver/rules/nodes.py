"""Nodes: their taints, the networks of their Pods, and what they offer. `config.py` names this machine's."""

import orjson

from steelyard_common.types import Json, copy_value, mapping, sequence
from steelyard_kube.objects import read_spec
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import key_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import (
    network_causes,
    network_warnings,
    quantity_causes,
)
from steelyard_schema.object_names import is_counted, value_faults

_EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
_BLOCKS = "spec.podCIDRs"
_ONCE = 'node updates may not change {} except from "" to valid'


def _prepare(node: Json) -> None:
    read_spec(node).pop("configSource", None)


def _default(node: Json) -> None:
    defaults(node, spec={})
    spec, status = node["spec"], mapping(node, "status")
    blocks, block = sequence(spec, "podCIDRs"), spec.get("podCIDR")
    # Two fields for one thing: the older one is the first of the newer ones.
    if block and block not in blocks[:1]:
        spec["podCIDRs"] = [block]
    elif blocks and not block:
        spec["podCIDR"] = blocks[0]
    if status.get("capacity") is not None:
        defaults(status, allocatable=copy_value(status["capacity"]))


def _carry(old: Json, new: Json) -> None:
    if "configSource" not in read_spec(old):
        read_spec(new).pop("configSource", None)


def _check(node: Json, old: Json | None) -> list[Cause]:
    causes = _taints_causes(node) + _amounts_causes(node) + _blocks_causes(sequence(node, "spec", "podCIDRs"))
    return causes if old is None else causes + _check_change(node, old)


def _check_change(node: Json, old: Json | None) -> list[Cause]:
    """Faults of a change, of the status too; a real server looks at the whole object in each."""
    spec, before = read_spec(node), read_spec(old)
    causes = _amounts_causes(node) + _addresses_causes(node)
    blocks, known = sequence(spec, "podCIDRs"), sequence(before, "podCIDRs")
    changed = 1 if len(blocks) != len(known) else sum(a != b for a, b in zip(blocks, known, strict=True))
    if known:
        causes += [forbidden_field(_BLOCKS, _ONCE.format("podCIDR"))] * changed
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        causes.append(forbidden_field("spec.providerID", _ONCE.format("providerID")))
    causes += _taints_causes(node)
    if spec.get("externalID") != before.get("externalID"):
        causes.append(forbidden_field("spec.externalID", "may not be updated"))
    return causes


def _taints_causes(node: Json) -> list[Cause]:
    causes: list[Cause] = []
    known: set[tuple[str, str]] = set()
    for index, taint in enumerate(sequence(node, "spec", "taints")):
        # A real server names this place, where taints once were annotations.
        where = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        causes += key_causes(key, f"{where}.key")
        if faults := list(value_faults(value)):
            causes.append(invalid(f"{where}.value", value, ";".join(faults)))
        if not effect:
            causes.append(missing_value(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in known:
            # As the server's own program keeps it.
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = f"{orjson.dumps(shown).decode()}: taints must be unique by key and effect pair"
            causes.append(Cause(where, f"Duplicate value: {text}", "FieldValueDuplicate"))
        known.add((key, effect))
    return causes


def _amounts_causes(node: Json) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("capacity", "allocatable"):
        for name, value in mapping(node, "status", field).items():
            causes += quantity_causes(value, f"status.{field}.{name}", whole=is_counted(name))
    return causes


def _addresses_causes(node: Json) -> list[Cause]:
    causes: list[Cause] = []
    known: set[tuple[str, str]] = set()
    for index, address in enumerate(sequence(node, "status", "addresses")):
        own = address.get("type") or "", address.get("address") or ""
        if own in known:
            shown = orjson.dumps({"Type": own[0], "Address": own[1]}).decode()
            where = f"status.addresses[{index}]"
            causes.append(Cause(where, f"Duplicate value: {shown}", "FieldValueDuplicate"))
        known.add(own)
    return causes


def _blocks_causes(blocks: list[str]) -> list[Cause]:
    faults = [network_causes(block, f"{_BLOCKS}[{index}]") for index, block in enumerate(blocks)]
    causes = [cause for own in faults for cause in own]
    if len(blocks) < 2:
        return causes
    if causes:
        index = next(index for index, own in enumerate(faults) if own)
        text = "invalid PodCIDRs. failed to check with dual stack with error:"
        text += f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {blocks[index]})"
        causes.append(Cause(_BLOCKS, f"Internal error: {text}", "InternalError"))
    if len(blocks) > 2 or causes or len({":" in block for block in blocks}) == 1:
        text = "may specify no more than one CIDR for each IP family"
        causes.append(invalid(_BLOCKS, blocks, text))
    return causes


def _warn(node: Json, old: Json | None) -> list[str]:
    spec, texts = node["spec"], []
    if spec.get("configSource") is not None:
        texts.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        texts.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, block in enumerate(sequence(spec, "podCIDRs")):
        texts += network_warnings(block, f"{_BLOCKS}[{index}]")
    return texts


NODE = Rules(
    prepare=_prepare, default=_default, check=_check, status_check=_check_change, carry=_carry, warn=_warn
)
