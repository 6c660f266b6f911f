"""Tests of the statements beside an image: both name the image by its digest, and everything that it is made of."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from deploy.images.archive import Image
from deploy.images.debian import Package
from deploy.images.own import Source, Wheel
from deploy.images.purposes import PURPOSES
from deploy.images.statements import Materials, provenance, write_bill, write_json
from tests.release.build import Metadata
from tests.release.lock import Pin
from tests.source import ROOT

DIGEST = "a" * 64
IMAGE = Image(Path("operator.tar"), "localhost/steelyard/operator:0.1.0", f"sha256:{DIGEST}", ())
LOCK = ROOT / "requirements" / "dev.txt"


@pytest.fixture
def materials(tmp_path: Path) -> Materials:
    names = ("steelyard", "steelyard-kube")
    needs = ("httpx>=0.28", "steelyard-kube==0.1.0")
    wheels = [Wheel(tmp_path / f"{name}.whl", Metadata(name, "0.1.0", needs), "b" * 64) for name in names]
    return Materials(
        source=Source("c" * 40, changed=False, seconds=1_700_000_000),
        python="3.11",
        lock=LOCK,
        packages=[Package("libc6", "2.36-9", "amd64", tmp_path / "libc6.deb", "d" * 64)],
        pins=[Pin("httpx", "0.28.1", ("e" * 64,), ("steelyard (pyproject.toml)",))],
        wheels=wheels,
    )


def test_the_bill_of_materials_is_valid_and_lists_all_parts(materials: Materials, tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path in paths:
        write_bill(path, IMAGE, PURPOSES["operator"], materials)
    text = paths[0].read_text()
    assert paths[1].read_text() == text
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    whole = document["metadata"]["component"]
    assert (whole["type"], whole["name"], whole["version"]) == ("container", IMAGE.reference, IMAGE.digest)
    assert {part["purl"] for part in document["components"]} == {
        "pkg:deb/debian/libc6@2.36-9?arch=amd64",
        "pkg:pypi/httpx@0.28.1",
        "pkg:pypi/steelyard-kube@0.1.0",
        "pkg:pypi/steelyard@0.1.0",
    }


def test_the_provenance_is_a_statement_about_the_image(materials: Materials, tmp_path: Path) -> None:
    statement = provenance(IMAGE, PURPOSES["operator"], materials)
    write_json(tmp_path / "provenance.json", statement)
    read = json.loads((tmp_path / "provenance.json").read_text())
    Statement.copy_from_pb(ParseDict(read, statement_pb2.Statement())).validate()
    assert read["subject"] == [{"name": "localhost/steelyard/operator", "digest": {"sha256": DIGEST}}]
    definition = read["predicate"]["buildDefinition"]
    digests = {entry["uri"]: entry.get("digest") for entry in definition["resolvedDependencies"]}
    assert digests["git+https://github.com/steelyard/steelyard"] == {"gitCommit": "c" * 40}
    assert digests["pkg:deb/debian/libc6@2.36-9?arch=amd64"] == {"sha256": "d" * 64}
    assert digests["pkg:pypi/steelyard-kube@0.1.0"] == {"sha256": "b" * 64}
    assert set(digests) >= {"requirements/dev.txt", "pkg:pypi/httpx@0.28.1"}
