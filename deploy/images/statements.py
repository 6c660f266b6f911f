"""Statements beside an image: its bill of materials, in CycloneDX like that of a release, and its provenance, in
in-toto's form with SLSA's predicate. Both are the same for the same image, and neither is signed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.component import Component, ComponentType
from packageurl import PackageURL

from deploy.images.archive import Image, architecture
from deploy.images.debian import Package
from deploy.images.layers import digest_file
from deploy.images.own import Source, Wheel
from deploy.images.purposes import Purpose
from steelyard_common.types import Json
from tests.release.bill import make_bill, package_url, save_bill
from tests.release.lock import Own, Pin
from tests.source import ROOT

REPOSITORY = "https://github.com/steelyard/steelyard"
BUILD_TYPE = f"{REPOSITORY}/blob/main/docs/container-images.md"


@dataclass(frozen=True)
class Materials:
    """Inputs of an image."""

    source: Source
    python: str
    lock: Path
    packages: Sequence[Package]
    pins: Sequence[Pin]
    wheels: Sequence[Wheel]


def write_bill(path: Path, image: Image, purpose: Purpose, materials: Materials) -> None:
    """Write what an image contains: our distributions, those of the lock, and Debian's packages."""
    own = [
        Own(
            wheel.metadata.name, wheel.metadata.version, wheel.metadata.needs, {wheel.path.name: wheel.digest}
        )
        for wheel in materials.wheels
    ]
    bom = make_bill(own, materials.pins, materials.source.time)
    bom.serial_number = uuid5(NAMESPACE_URL, f"{image.reference}@{image.digest}")
    steelyard = bom.metadata.component
    assert steelyard is not None
    systems = [_debian(package) for package in materials.packages]
    bom.components.update([steelyard, *systems])
    url = PackageURL("oci", name=purpose.name, version=image.digest, qualifiers={"arch": architecture()})
    whole = Component(
        name=image.reference, version=image.digest, type=ComponentType.CONTAINER, purl=url, bom_ref=str(url)
    )
    bom.metadata.component = whole
    bom.register_dependency(whole, bom.components)
    save_bill(path, bom)


def _debian(package: Package) -> Component:
    url = _debian_url(package)
    return Component(
        name=package.name, version=package.version, type=ComponentType.LIBRARY, purl=url, bom_ref=str(url)
    )


def _debian_url(package: Package) -> PackageURL:
    arch = {"arch": package.architecture}
    return PackageURL("deb", "debian", package.name, package.version, qualifiers=arch)


def provenance(image: Image, purpose: Purpose, materials: Materials) -> Json:
    """Return the statement of how an image was made, and of what."""
    repository, _, _ = image.reference.rpartition(":")
    source = materials.source
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": repository, "digest": {"sha256": image.digest.removeprefix("sha256:")}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"image": purpose.name, "extras": list(purpose.extras)},
                "internalParameters": {
                    "architecture": architecture(),
                    "python": materials.python,
                    "sourceDateEpoch": source.seconds,
                    "treeDiffersFromCommit": source.changed,
                },
                "resolvedDependencies": [
                    {"uri": f"git+{REPOSITORY}", "digest": {"gitCommit": source.commit}},
                    {
                        "uri": f"{materials.lock.relative_to(ROOT)}",
                        "digest": {"sha256": digest_file(materials.lock)},
                    },
                    *(
                        {"uri": str(_debian_url(package)), "digest": {"sha256": package.digest}}
                        for package in materials.packages
                    ),
                    *(
                        {
                            "uri": str(package_url(wheel.metadata.name, wheel.metadata.version)),
                            "digest": {"sha256": wheel.digest},
                        }
                        for wheel in materials.wheels
                    ),
                    *({"uri": str(package_url(pin.name, pin.version))} for pin in materials.pins),
                ],
            },
            "runDetails": {"builder": {"id": f"{REPOSITORY}/tree/main/deploy/images"}},
        },
    }


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
