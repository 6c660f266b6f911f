"""Pins of a lock, as `uv pip compile` writes them: version, hashes of the files, and the projects that ask for it."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tests.source import ROOT

LOCK = ROOT / "requirements" / "local.txt"
"""Lock of everything that `steelyard[local]` brings."""
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Own:
    """One of our distributions."""

    name: str
    version: str
    needs: tuple[str, ...]
    """Names of the distributions that it or one of its extras names."""
    files: Mapping[str, str]
    """SHA-256 of each of its files, by name."""


@dataclass(frozen=True)
class Pin:
    """One distribution in one version."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """SHA-256 of each file of this version; an installation takes any one of them."""
    askers: tuple[str, ...]
    """Names of the distributions that need it, `steelyard (pyproject.toml…)` where our project does."""


def read_pins(lock: str) -> list[Pin]:
    """Return the pins in the order of the lock; a distribution may have two versions for different Pythons."""
    pins: list[Pin] = []
    for part in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE):
        match = PIN.match(part)
        if match:
            askers = re.findall(r"^    #(?: via)? +(\S.*)$", part, re.MULTILINE)
            askers = [name for name in askers if name != "via" and not name.startswith("-c ")]
            pins.append(Pin(match[1], match[2], tuple(HASH.findall(part)), tuple(askers)))
    return pins


def select_shipped(pins: Iterable[Pin], named: Collection[str]) -> list[Pin]:
    """Return the pins that an installation of ours can bring: the named distributions, and all that these ask for."""
    waiting, reached = list(pins), set(named)
    shipped: list[Pin] = []
    while asked := [pin for pin in waiting if pin.name in reached or not reached.isdisjoint(pin.askers)]:
        shipped += asked
        reached |= {pin.name for pin in asked}
        waiting = [pin for pin in waiting if pin not in asked]
    return sorted(shipped, key=lambda pin: (pin.name, pin.version))


def write_requirements(own: Iterable[Own], lock: str) -> str:
    """Return requirements with digests, by which pip installs `steelyard[local]` in exactly the versions of a lock."""
    lines = [
        f"{one.name}{'[local]' if one.name == 'steelyard' else ''}=={one.version} \\\n"
        + " \\\n".join(f"    --hash=sha256:{digest}" for _, digest in sorted(one.files.items()))
        for one in own
    ]
    return "\n".join([*lines, lock])
