"""Addresses of a Service and their families, on a network that has IPv4 alone: defaults, changes and faults.

`services.py` asks it. The addresses themselves are given out by `admission/cluster_addresses.py`.
"""

import ipaddress

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.rules.fields import duplicate, ip_causes
from steelyard_local_kubernetes.apiserver.rules.service_types import has_address

HEADLESS = "None"
_FAMILIES = ["IPv4", "IPv6"]
_SINGLE, _PREFERRED, _REQUIRED = "SingleStack", "PreferDualStack", "RequireDualStack"
_POLICY = "spec.ipFamilyPolicy"
_ADDRESSES = "spec.clusterIPs"


def keep_addresses(before: Json, spec: Json) -> None:
    """Give the new spec of a Service the addresses that it does not name, or names in one of their two fields."""
    addresses, known = sequence(spec, "clusterIPs"), sequence(before, "clusterIPs")
    unchanged = addresses in ([], known)
    if not has_address(spec):
        if unchanged and spec.get("clusterIP") in (None, "", before.get("clusterIP")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        return
    if not known or not has_address(before):
        return
    spec["clusterIP"] = spec.get("clusterIP") or before.get("clusterIP")
    if unchanged:
        # An older client knows the first of the two fields alone.
        spec["clusterIPs"] = known if spec["clusterIP"] == before.get("clusterIP") else [spec["clusterIP"]]


def complete_families(spec: Json, before: Json) -> None:
    """Complete the stated families, unless they have a fault. `before` is empty for a new Service."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not has_address(spec):
        return
    if spec.get("ipFamilyPolicy") is None:
        usual = _REQUIRED if _is_without_selector(spec) else _SINGLE
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or usual
    if _stays_preferred(spec, before) or family_causes(spec, before):
        return
    addresses, families = _read_families(spec, before)
    spec |= {"clusterIPs": addresses} if addresses else {}
    if families or addresses not in ([], [HEADLESS]):
        spec["ipFamilies"] = _with_second(spec, families or _FAMILIES[:1])


def add_families(spec: Json) -> None:
    """Fill in families that nobody stated. Only after the checks: who states fewer than before may be refused."""
    if has_address(spec) and not spec.get("ipFamilies"):
        spec["ipFamilies"] = _with_second(spec, _FAMILIES[:1])


def _with_second(spec: Json, families: list[str]) -> list[str]:
    if not _is_without_selector(spec) or spec["ipFamilyPolicy"] == _SINGLE:
        return families
    # Its addresses are whatever its author gives its endpoints.
    return [*families, *(family for family in _FAMILIES if family not in families)]


def family_causes(spec: Json, before: Json) -> list[Cause]:
    """Return faults of addresses and families; a real server looks for others only where there are none."""
    if not has_address(spec) or _stays_preferred(spec, before):
        return []
    if causes := _family_causes(spec, before):
        return causes
    policy, (addresses, families) = spec.get("ipFamilyPolicy"), _read_families(spec, before)
    causes = _number_causes(policy, addresses, sequence(before, "clusterIPs"), "cluster IP", "cluster IPs")
    causes += _number_causes(policy, families, sequence(before, "ipFamilies"), "IP family", "IP families")
    for index, address in enumerate(addresses[len(families) :], len(families)):
        if _is_ipv6(address):
            text = "IPv6 is not configured on this cluster"
            causes.append(invalid(f"{_ADDRESSES}[{index}]", addresses, text))
    if causes or _is_without_selector(spec):
        return causes
    if policy == _REQUIRED:
        causes.append(invalid(_POLICY, policy, "this cluster is not configured for dual-stack services"))
    for index, family in enumerate(families):
        if family != "IPv4":
            text = "not configured on this cluster"
            causes.append(invalid(f"spec.ipFamilies[{index}]", family, text))
    return causes


def _number_causes(
    policy: str | None, now: list[str], then: list[str], one: str, several: str
) -> list[Cause]:
    if policy != _SINGLE and 0 < len(now) < len(then):
        return [invalid(_POLICY, policy, f"must be '{_SINGLE}' to release the secondary {one}")]
    if policy == _SINGLE and len(now) == 2:
        text = f"must be '{_REQUIRED}' or '{_PREFERRED}' when multiple {several} are specified"
        return [invalid(_POLICY, policy, text)]
    return []


def address_change_causes(spec: Json, before: Json) -> list[Cause]:
    """Clients have resolved the Service's name to its address, and go on calling it."""
    now, then = sequence(spec, "clusterIPs"), sequence(before, "clusterIPs")
    if not has_address(spec) or not has_address(before) or not then or now[:1] == then[:1]:
        return []
    return [invalid(f"{_ADDRESSES}[0]", now, "may not change once set")]


def _is_without_selector(spec: Json) -> bool:
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def _stays_preferred(spec: Json, before: Json) -> bool:
    """Return whether a Service that takes the families that there are is as it was, which is never looked at again."""
    same = ("type", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    now = {**spec, "type": spec.get("type") or "ClusterIP"}
    return before.get("ipFamilyPolicy") == _PREFERRED and all(now.get(x) == before.get(x) for x in same)


def _read_families(spec: Json, before: Json) -> tuple[list[str], list[str]]:
    """Return addresses and families; where the policy alone was changed to one family, the second ones are let go."""
    stated: list[list[str]] = []
    for name in ("clusterIPs", "ipFamilies"):
        values = sequence(spec, name)
        let_go = spec.get("ipFamilyPolicy") == _SINGLE and values == sequence(before, name)
        stated.append(values[:1] if let_go else values)
    return stated[0], stated[1]


def _family_causes(spec: Json, before: Json) -> list[Cause]:
    """Faults of the stated families, whatever the network has."""
    families, policy = sequence(spec, "ipFamilies"), spec.get("ipFamilyPolicy")
    causes = _agreement_causes(spec)
    for index, family in enumerate(families):
        where = f"spec.ipFamilies[{index}]"
        if family not in _FAMILIES:
            causes.append(not_supported(where, family, _FAMILIES))
        if family in families[:index]:
            causes.append(duplicate(where, family))
    if policy is not None and policy not in (_SINGLE, _PREFERRED, _REQUIRED):
        causes.append(not_supported(_POLICY, policy, [_PREFERRED, _REQUIRED, _SINGLE]))
    addresses, malformed = sequence(spec, "clusterIPs"), _address_form_causes(spec, before)
    causes += malformed
    if len(addresses) > 2:
        causes.append(invalid(_ADDRESSES, addresses, "may only hold up to 2 values"))
    return causes if malformed else causes + _family_of_address_causes(addresses, families)


def _agreement_causes(spec: Json) -> list[Cause]:
    """The older of the two fields is the first one of the newer."""
    first, addresses = spec.get("clusterIP"), sequence(spec, "clusterIPs")
    if not first:
        text = "must be empty when `clusterIP` is not specified"
        return [invalid(_ADDRESSES, addresses, text)] if addresses else []
    if not addresses:
        return [missing_value(_ADDRESSES)]
    text = "first value must match `clusterIP`"
    return [invalid(_ADDRESSES, addresses, text)] if addresses[0] != first else []


def _address_form_causes(spec: Json, before: Json) -> list[Cause]:
    addresses, causes = sequence(spec, "clusterIPs"), []
    for index, address in enumerate(addresses):
        if not index and address == HEADLESS:
            if len(addresses) > 1:
                causes.append(invalid(_ADDRESSES, addresses, "'None' must be the first and only value"))
        elif address not in sequence(before, "clusterIPs"):
            causes += ip_causes(address, f"{_ADDRESSES}[{index}]")
    return causes


def _family_of_address_causes(addresses: list[str], families: list[str]) -> list[Cause]:
    causes = []
    if len(addresses) > 1 and len({_is_ipv6(address) for address in addresses}) == 1:
        text = "may specify no more than one IP for each IP family"
        causes.append(invalid(_ADDRESSES, addresses, text))
    if addresses == [HEADLESS]:
        return causes
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and _is_ipv6(address) != (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            causes.append(invalid(f"{_ADDRESSES}[{index}]", address, text))
    return causes


def _is_ipv6(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False  # no address, or none
    return isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None
