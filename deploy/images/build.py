"""Makes images: the base once, then for each purpose its dependencies, our wheels, the archive and its statements."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.images import debian, dependencies, own
from deploy.images.archive import Configuration, Image, write
from deploy.images.bytecode import compile_modules
from deploy.images.debian import Interpreter, Package
from deploy.images.layers import Layer, pack
from deploy.images.own import Source, Wheel
from deploy.images.purposes import Purpose
from deploy.images.statements import REPOSITORY, Materials, provenance, write_bill, write_json
from steelyard_common.types import Json

VARIABLES = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
ENTRYPOINT = (f"/{own.PROGRAM_PATH}",)
Report = Callable[[str], None]


@dataclass(frozen=True)
class Base:
    """The layer that all images share, its packages, and its Python."""

    layer: Layer
    packages: Sequence[Package]
    python: Interpreter
    platform: str


@dataclass(frozen=True)
class Workshop:
    """Places and inputs of one run."""

    output: Path
    cache: Path
    scratch: Path
    registry: str
    source: Source
    report: Report


def make_images(purposes: Sequence[Purpose], shop: Workshop) -> list[Image]:
    """Make the images of the purposes into the output folder, with their statements beside them. Raises ImageError."""
    base = make_base(shop)
    wheels = own.build_wheels(shop.source, shop.scratch / "wheels")
    images: list[Image] = []
    for purpose in purposes:
        began = time.monotonic()
        image = make_image(purpose, base, wheels, shop)
        images.append(image)
        compressed, unpacked = (
            sum(getattr(layer, name) for layer in image.layers) / 1e6 for name in ("size", "files_size")
        )
        shop.report(
            f"{purpose.name}: {compressed:.0f} MB compressed, {unpacked:.0f} MB unpacked, {image.digest[:19]}, "
            f"{time.monotonic() - began:.0f} s"
        )
    return images


def make_base(shop: Workshop) -> Base:
    shop.report("base: Debian's packages ...")
    packages = debian.fetch(shop.cache)
    root = shop.scratch / "base"
    debian.make_root(packages, root)
    python = Interpreter(root)
    compile_modules(python, python.library, root)
    layer = pack(root, shop.scratch / "base.tar.gz", f"Python {python.version} from Debian's packages")
    shop.report(f"base: {layer.size / 1e6:.0f} MB compressed, {layer.files_size / 1e6:.0f} MB unpacked")
    machine = dependencies.machine()
    return Base(layer, packages, python, dependencies.platform_tag(packages, machine))


def make_image(purpose: Purpose, base: Base, wheels: Sequence[Wheel], shop: Workshop) -> Image:
    python, scratch = base.python, shop.scratch / purpose.name
    scratch.mkdir()
    pins = dependencies.choose_pins(purpose, python.version, base.platform)
    shop.report(f"{purpose.name}: {len(pins)} locked distributions ...")
    locked, ours = scratch / "dependencies", scratch / "own"
    dependencies.install(pins, python, base.platform, locked, scratch)
    chosen = [wheel for wheel in wheels if purpose.embedded or wheel.metadata.name != own.EMBEDDED]
    own.install(chosen, ours, python.modules)
    for root in (locked, ours):
        compile_modules(python, root / python.modules, root)
    titles = f"locked dependencies of {', '.join(purpose.extras)}", "Steelyard"
    layers = [
        base.layer,
        *(
            pack(root, scratch / f"{root.name}.tar.gz", title)
            for root, title in zip((locked, ours), titles, strict=True)
        ),
    ]
    version = chosen[0].metadata.version
    configuration = Configuration(
        entrypoint=("python", "-m", purpose.module) if purpose.module else ENTRYPOINT,
        user=f"{debian.USER}:{debian.USER}",
        created=shop.source.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        variables=VARIABLES,
        annotations=annotations(purpose, version, shop.source),
    )
    reference = f"{shop.registry}/{purpose.name}:{version}"
    image = write(shop.output / f"{purpose.name}.tar", reference, layers, configuration)
    materials = Materials(shop.source, python.version, dependencies.LOCK, base.packages, pins, chosen)
    write_bill(shop.output / f"{purpose.name}.sbom.json", image, purpose, materials)
    write_json(shop.output / f"{purpose.name}.provenance.json", provenance(image, purpose, materials))
    shutil.rmtree(scratch)
    return image


def annotations(purpose: Purpose, version: str, source: Source) -> dict[str, str]:
    values = {
        "created": source.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "description": purpose.description,
        "licenses": "Apache-2.0",
        "revision": source.revision,
        "source": REPOSITORY,
        "title": f"steelyard/{purpose.name}",
        "version": version,
    }
    return {f"org.opencontainers.image.{name}": value for name, value in values.items()}


def list_images(images: Sequence[Image]) -> Json:
    """Return the references, digests and sizes of images by their names."""
    return {
        image.path.name.removesuffix(".tar"): {
            "reference": image.reference,
            "digest": image.digest,
            "compressedBytes": sum(layer.size for layer in image.layers),
            "unpackedBytes": sum(layer.files_size for layer in image.layers),
        }
        for image in images
    }
