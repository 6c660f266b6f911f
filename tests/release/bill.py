"""The bill of materials of a release, in CycloneDX: our distributions with their files, and every locked distribution
that one of our extras can bring, with hashes and dependencies.

The same commit gives the same bytes: time and serial number follow from the commit and the files.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tests.release.lock import Own, Pin, read_pins, select_shipped
from tests.source import ROOT

LOCKS = (
    *(ROOT / "requirements" / name for name in ("dev.txt", "ray.txt")),
    ROOT / "tests" / "engines" / "notebooks" / "notebooks.txt",
)
"""Locks that hold, together, every extra of ours."""


def read_shipped_pins(named: Collection[str]) -> list[Pin]:
    """Return the pins that the named distributions bring, of all locks, each distribution and version once."""
    pins: dict[tuple[str, str], Pin] = {}
    for lock in LOCKS:
        for pin in select_shipped(read_pins(lock.read_text()), named):
            earlier = pins.get((pin.name, pin.version), pin)
            askers = tuple(sorted({*pin.askers, *earlier.askers}))
            pins[pin.name, pin.version] = Pin(pin.name, pin.version, pin.hashes, askers)
    return [pins[key] for key in sorted(pins)]


def write_bill(path: Path, own: Sequence[Own], pins: Sequence[Pin], made: datetime) -> None:
    save_bill(path, make_bill(own, pins, made))


def save_bill(path: Path, bom: Bom) -> None:
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n")


def make_bill(own: Sequence[Own], pins: Sequence[Pin], made: datetime) -> Bom:
    bom = Bom(
        serial_number=uuid5(
            NAMESPACE_URL, json.dumps([[one.name, one.version, dict(one.files)] for one in own])
        )
    )
    bom.metadata.timestamp = made.astimezone(UTC)
    components: dict[str, list[Component]] = {}
    for one in own:
        licence = DisjunctiveLicense(id="Apache-2.0")
        files = [distribution(name, [digest]) for name, digest in sorted(one.files.items())]
        components[one.name] = [
            component(one.name, one.version, licenses=[licence], external_references=files)
        ]
    for pin in pins:
        # Hashes of a component would all be those of one file; an installation takes one of several.
        files = [distribution(str(package_url(pin.name, pin.version)), pin.hashes)]
        components.setdefault(pin.name, []).append(
            component(pin.name, pin.version, external_references=files)
        )
    bom.metadata.component = components["steelyard"][0]
    bom.components = [part for name, parts in components.items() if name != "steelyard" for part in parts]
    for one in own:
        needed = [part for name in one.needs for part in components.get(name, ())]
        bom.register_dependency(components[one.name][0], needed)
    askers = {(pin.name, pin.version): pin.askers for pin in pins}
    for pin in pins:
        (part,) = (part for part in components[pin.name] if part.version == pin.version)
        needed = [
            other
            for others in components.values()
            for other in others
            if pin.name in askers.get((other.name, other.version or ""), ())
        ]
        bom.register_dependency(part, needed)
    return bom


def component(name: str, version: str, **fields: Any) -> Component:
    url = package_url(name, version)
    kind = ComponentType.APPLICATION if name == "steelyard" else ComponentType.LIBRARY
    return Component(name=name, version=version, type=kind, purl=url, bom_ref=str(url), **fields)


def package_url(name: str, version: str) -> PackageURL:
    return PackageURL("pypi", name=name, version=version)


def distribution(url: str, digests: Sequence[str]) -> ExternalReference:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests]
    return ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url), hashes=hashes)


def digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
