"""Checks of single values, in the real server's words. The rules of every kind are made of them."""

import ipaddress
import re
from collections.abc import Iterable
from decimal import Decimal

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported, too_many
from steelyard_local_kubernetes.apiserver.quantity import quantity

MAX_INT32 = 2**31 - 1
NOT_NEGATIVE = "must be greater than or equal to 0"
_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
PROTOCOLS = ["SCTP", "TCP", "UDP"]


def not_negative(obj: Json, path: str, *names: str) -> list[Cause]:
    """Numbers of an object that lies at `path`, where they are there."""
    return [invalid(f"{path}.{name}", obj[name], NOT_NEGATIVE) for name in names if (obj.get(name) or 0) < 0]


def between(value: int | None, path: str, low: int, high: int) -> list[Cause]:
    if value is None or low <= value <= high:
        return []
    return [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def port_number(value: object, path: str) -> list[Cause]:
    in_range = isinstance(value, int) and 0 < value < 65536
    return [] if in_range else [invalid(path, value, "must be between 1 and 65535, inclusive")]


def port_name(value: str, path: str) -> list[Cause]:
    texts = []
    if len(value) > 15:
        texts.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        texts.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        texts.append("must contain at least one letter (a-z)")
    if "--" in value:
        texts.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        texts.append("must not begin or end with a hyphen")
    return [invalid(path, value, text) for text in texts]


def port(value: int | str | None, path: str) -> list[Cause]:
    """Checks a port that is given by its number or by its name."""
    return port_name(value, path) if isinstance(value, str) else port_number(value or 0, path)


def share(value: int | str | None, path: str) -> list[Cause]:
    """A number of Pods, or a percentage."""
    if isinstance(value, int) and value < 0:
        return [invalid(path, value, NOT_NEGATIVE)]
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        return [invalid(path, value, _PERCENT_TEXT)]
    return []


def percent(value: int | str | None) -> int | None:
    """The number of a percentage; None for any other text."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return None
    # A longer one only has to be too large: `int` refuses texts of thousands of digits.
    return int(value[:-1]) if len(value) < 20 else MAX_INT32


def choice_causes(value: object, path: str, choices: list[str]) -> list[Cause]:
    """One of these texts, where there is one."""
    return [] if value in (None, *choices) else [not_supported(path, value, choices)]


def quantity_causes(value: object, path: str, *, whole: bool = False) -> list[Cause]:
    causes = []
    if clamp_quantity(value) < 0:
        causes.append(invalid(path, str(value), NOT_NEGATIVE))
    if whole and clamp_quantity(value) % 1:
        causes.append(invalid(path, str(value), "must be an integer"))
    return causes


_LARGEST = Decimal(2**63 - 1)


def clamp_quantity(value: object) -> Decimal:
    """Larger ones count as the largest, as on a real server."""
    return min(max(quantity(value), -_LARGEST), _LARGEST)


def duplicates(values: Iterable[str], path: str, name: str, *, empty: bool = False) -> list[Cause]:
    """Texts that items of the list at `path` must not share. `empty`: several may be without."""
    seen: set[str] = set()
    causes = []
    for index, value in enumerate(values):
        if value in seen and not (empty and not value):
            causes.append(duplicate(f"{path}[{index}].{name}", value))
        seen.add(value)
    return causes


def duplicate(path: str, value: str) -> Cause:
    return Cause(path, f'Duplicate value: "{value}"', "FieldValueDuplicate")


def at_most(path: str, count: int, most: int) -> list[Cause]:
    """A number of items, or a list that has too many of them."""
    return [too_many(path, count, most)] if count > most else []


def ip_causes(value: str, path: str) -> list[Cause]:
    if is_ip(value):
        return []
    return [invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]


def network_causes(value: str, path: str) -> list[Cause]:
    """Return what is wrong with addresses that begin alike, as Go's older parser reads them."""
    address, slash, length = value.partition("/")
    try:
        if slash and is_ip(address) and length.isascii() and length.isdecimal():
            ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
            return []
    except ValueError:
        pass  # more bits than an address has
    return [invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def network_warnings(value: str, path: str) -> list[str]:
    """Return what a network is warned of that `network_causes` takes."""
    try:
        interface = ipaddress.ip_interface(value)
    except ValueError:
        return []
    own = f"{path}: {{}} {orjson.dumps(value).decode()}"
    if interface.ip != interface.network.network_address:
        choices = f'"{interface.network}" or "{interface.ip}/{interface.max_prefixlen}"'
        return [f"{own.format('CIDR value')} is ambiguous in this context (should be {choices}?)"]
    if interface.version == 6 and str(interface.network) != value:
        form = f'should be in RFC 5952 canonical format ("{interface.network}")'
        return [f"{own.format('IPv6 CIDR value')} {form}"]
    return []


def is_ip(value: object) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    # With a zone an address is one of a single machine's network card, and Go's parser takes none here.
    return "%" not in str(value)


def file_mode(value: int | None, path: str) -> list[Cause]:
    if value is None or 0 <= value <= 0o777:
        return []
    return [invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")]


def descending_path(value: str, path: str) -> list[Cause]:
    """A path below something: relative, and never up."""
    causes = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return causes + no_backsteps(value, path)


def no_backsteps(value: str, path: str) -> list[Cause]:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def volume_path(value: str, path: str) -> list[Cause]:
    """A file of a volume: Kubernetes keeps names that begin with two dots for itself."""
    causes = descending_path(value, path)
    if not causes and value.startswith(".."):
        causes = [invalid(path, value, "must not start with '..'")]
    return causes


def emptiness_causes(obj: Json, path: str, *names: str) -> list[Cause]:
    """Texts and lists that may not be empty."""
    return [missing_value(f"{path}.{name}") for name in names if not obj.get(name)]
