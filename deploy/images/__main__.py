"""`make images`: OCI archives of Steelyard's images in `build/images/`, without a registry, a container daemon and
root.

Beside each archive stand its bill of materials and its provenance; `images.json` has the references and digests of
all.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from deploy.images.archive import unpack
from deploy.images.build import Workshop, list_images, make_images
from deploy.images.errors import ImageError
from deploy.images.own import read_source
from deploy.images.purposes import MADE, PURPOSES
from deploy.images.statements import write_json
from tests.source import ROOT

OUTPUT = ROOT / "build" / "images"
CACHE = OUTPUT / "cache"
"""Folder of Debian's packages, which are loaded once."""


def main(words: list[str]) -> int:
    names = ", ".join(f"{name} ({purpose.description.rstrip('.')})" for name, purpose in PURPOSES.items())
    parser = argparse.ArgumentParser(prog="python -m deploy.images", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"image to make, by default all: {names}")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: build/images")
    parser.add_argument(
        "--registry",
        default="localhost/steelyard",
        metavar="PREFIX",
        help="beginning of references: %(default)s",
    )
    parser.add_argument(
        "--unpack",
        type=Path,
        metavar="FOLDER",
        help="lay the files of the image, of which one is named, here as well",
    )
    arguments = parser.parse_args(words)
    if arguments.unpack and len(arguments.names) != 1:
        parser.error("--unpack takes one image")
    if unknown := [name for name in arguments.names if name not in PURPOSES]:
        parser.error(f"there is no image {', '.join(unknown)}; there are {', '.join(PURPOSES)}")
    chosen = [PURPOSES[name] for name in dict.fromkeys(arguments.names or MADE)]
    if missing := [purpose for purpose in chosen if purpose.missing]:
        for purpose in missing:
            print(f"{purpose.name}: not implemented: {purpose.missing}", file=sys.stderr)
        return 2
    try:
        make(
            arguments.output.absolute(), arguments.registry.rstrip("/"), [purpose.name for purpose in chosen]
        )
        if arguments.unpack:
            arguments.unpack.mkdir(parents=True, exist_ok=True)
            unpack(arguments.output / f"{chosen[0].name}.tar", arguments.unpack)
    except ImageError as error:
        print(f"no image: {error}", file=sys.stderr)
        return 1
    return 0


def make(output: Path, registry: str, names: list[str]) -> None:
    """Make the named images, and name them in the list of images, where others stay."""
    output.mkdir(parents=True, exist_ok=True)
    listed = output / "images.json"
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=output) as scratch:
        shop = Workshop(
            output=output,
            cache=CACHE,
            scratch=Path(scratch),
            registry=registry,
            source=read_source(),
            report=lambda line: print(line, flush=True),
        )
        images = make_images([PURPOSES[name] for name in names], shop)
    earlier = json.loads(listed.read_text()) if listed.exists() else {}
    write_json(listed, earlier | list_images(images))
    print(f"{len(images)} images in {output}, {listed.name} beside them")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
