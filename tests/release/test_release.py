"""Tests of what a release consists of: one version, the locked distributions, checksums and their signature."""

import json
import re
import shutil
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.release import bill
from tests.release.build import Commit, Metadata, build_all, check_versions, read_commit
from tests.release.lock import LOCK, Own, Pin, read_pins, select_shipped, write_requirements
from tests.release.sign import sign, write_sums
from tests.release.steps import ReleaseError
from tests.source import ROOT

EPOCH = datetime(2026, 1, 2, tzinfo=UTC)
PINS = """\
anyio==4.16.0 \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
    # via
    #   -c requirements/dev.txt
    #   httpx
httpx==0.28.1 \\
    --hash=sha256:{1}
    # via steelyard (pyproject.toml)
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:{0}
    # via steelyard (pyproject.toml)
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{1}
    # via steelyard (pyproject.toml)
pytest==8.4.0 \\
    --hash=sha256:{0}
    # via steelyard (pyproject.toml:dev)
""".format("0" * 64, "1" * 64)
OWN = (
    Own("steelyard", "0.1.0", ("httpx", "numpy", "steelyard-kube"), {"steelyard-0.1.0.tar.gz": "a" * 64}),
    Own("steelyard-kube", "0.1.0", ("anyio",), {"steelyard_kube-0.1.0.tar.gz": "b" * 64}),
)


def test_a_lock_is_read() -> None:
    assert read_pins(PINS)[:2] == [
        Pin("anyio", "4.16.0", ("0" * 64, "1" * 64), ("httpx",)),
        Pin("httpx", "0.28.1", ("1" * 64,), ("steelyard (pyproject.toml)",)),
    ]


@pytest.mark.parametrize("lock", bill.LOCKS, ids=lambda path: path.name)
def test_every_pin_of_a_lock_is_read_with_its_hashes(lock: Path) -> None:
    text = lock.read_text()
    pins = read_pins(text)
    assert len(pins) == len(re.findall(r"^\S+==", text, re.MULTILINE)) > 30
    assert sum(len(pin.hashes) for pin in pins) == text.count("--hash=")
    assert [pin.name for pin in pins if not pin.askers or not pin.hashes] == []


def test_tools_of_development_are_not_shipped() -> None:
    names = [pin.name for pin in select_shipped(read_pins(PINS), {"httpx", "numpy"})]
    assert names == ["anyio", "httpx", "numpy", "numpy"]


def read_needs() -> set[str]:
    """Return the names of all distributions that dependencies and extras of our projects name."""
    needs: set[str] = set()
    for path in (ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        lines = tuple(line for extra in project["optional-dependencies"].values() for line in extra)
        needs |= {*Metadata(project["name"], "", (*project["dependencies"], *lines)).needs}
    return needs


@pytest.mark.parametrize("lock", ["local.txt", "ray.txt"])
def test_the_bill_lists_every_distribution_that_an_installation_locks(lock: str, tmp_path: Path) -> None:
    bill.write_bill(tmp_path / "bill.json", OWN, bill.read_shipped_pins(read_needs()), EPOCH)
    listed = {
        (part["name"], part["version"])
        for part in json.loads((tmp_path / "bill.json").read_text())["components"]
    }
    locked = {(pin.name, pin.version) for pin in read_pins((ROOT / "requirements" / lock).read_text())}
    assert locked - listed == set()
    assert {name for name, _ in listed}.isdisjoint({"pytest", "mypy", "ruff", "dyff-client"})


def test_every_extra_has_its_distributions_in_a_lock() -> None:
    pinned = {pin.name for pin in bill.read_shipped_pins(read_needs())}
    assert {name for name in read_needs() if not name.startswith("steelyard")} - pinned == set()


def test_a_bill_is_valid_and_says_who_needs_what(tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path in paths:
        bill.write_bill(path, OWN, select_shipped(read_pins(PINS), {"httpx", "numpy"}), EPOCH)
    text = paths[0].read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert paths[1].read_text() == text
    document = json.loads(text)
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    assert needs["pkg:pypi/steelyard@0.1.0"] == [
        "pkg:pypi/httpx@0.28.1",
        "pkg:pypi/numpy@2.4.6",
        "pkg:pypi/numpy@2.5.5",
        "pkg:pypi/steelyard-kube@0.1.0",
    ]
    assert needs["pkg:pypi/httpx@0.28.1"] == ["pkg:pypi/anyio@4.16.0"]
    (anyio,) = (part for part in document["components"] if part["name"] == "anyio")
    assert [digest["content"] for digest in anyio["externalReferences"][0]["hashes"]] == ["0" * 64, "1" * 64]


def test_requirements_of_a_release_have_digests_of_all(tmp_path: Path) -> None:
    requirements = write_requirements(OWN, LOCK.read_text())
    assert requirements.startswith(
        f"steelyard[local]==0.1.0 \\\n    --hash=sha256:{'a' * 64}\nsteelyard-kube==0.1.0 "
    )
    pins = read_pins(requirements.replace("steelyard[local]", "steelyard"))
    assert [pin.name for pin in pins[:2]] == ["steelyard", "steelyard-kube"]
    assert [pin.name for pin in pins if not pin.hashes] == []


def test_one_version_for_all() -> None:
    whole = Metadata(
        "steelyard",
        "0.1.0",
        ("httpx>=0.28", "steelyard-kube==0.1.0; extra == 'operator'", "steelyard[eval]; extra == 'hub'"),
    )
    kube = Metadata("steelyard-kube", "0.1.0", ())
    assert check_versions([whole, kube]) == "0.1.0"
    with pytest.raises(ReleaseError, match="the versions differ"):
        check_versions([whole, Metadata("steelyard-kube", "0.1.1", ())])
    with pytest.raises(ReleaseError, match=r"other than 0.1.0: steelyard-kube>=0.1"):
        check_versions([Metadata("steelyard", "0.1.0", ("steelyard-kube>=0.1",)), kube])
    assert whole.needs == ("httpx", "steelyard-kube")


def commit_all(root: Path) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "First")):
        subprocess.run(("git", *words), cwd=root, check=True)


def test_a_tree_that_differs_from_its_commit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("A = 1\n")
    commit_all(tmp_path)
    assert len(read_commit(tmp_path).name) == 40
    (tmp_path / "other.py").write_text("B = 1\n")
    with pytest.raises(ReleaseError, match=r"differs from its commit.*\n\?\? other.py"):
        read_commit(tmp_path)


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "small"
version = "1"
requires-python = ">=3.11"
[tool.hatch.build.targets.wheel]
packages = ["small"]
[tool.hatch.build.targets.sdist]
exclude = [EXCLUDED]
"""


def make_project(tree: Path, excluded: str) -> Path:
    (tree / "small").mkdir(parents=True)
    (tree / "small" / "__init__.py").write_text("")
    (tree / "small" / "data.txt").write_text("data")
    (tree / "pyproject.toml").write_text(PROJECT.replace("EXCLUDED", excluded))
    return tree


def test_a_source_archive_that_lacks_a_file_of_the_wheel_is_refused(tmp_path: Path) -> None:
    commit = Commit("0" * 40, 1_700_000_000)
    whole = make_project(tmp_path / "whole" / "tree", "")
    built = build_all(whole, whole.parent / "dist", commit)
    assert [path.name for path in built] == ["small-1-py3-none-any.whl", "small-1.tar.gz"]
    lacking = make_project(tmp_path / "lacking" / "tree", '"data.txt"')
    with pytest.raises(
        ReleaseError, match=r"small-1-py3-none-any\.whl: the wheel of the source archive differs"
    ):
        build_all(lacking, lacking.parent / "dist", commit)


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    for name in ("one.whl", "two.whl"):
        (tmp_path / name).write_text(name)
    return write_sums(tmp_path, [tmp_path / "two.whl", tmp_path / "one.whl"])


def test_checksums_verify(sums: Path) -> None:
    check = ("sha256sum", "--check", "--strict", sums.name)
    assert subprocess.run(check, cwd=sums.parent, check=False).returncode == 0
    (sums.parent / "one.whl").write_text("changed")
    assert subprocess.run(check, cwd=sums.parent, check=False).returncode == 1


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="there is no ssh-keygen")
def test_a_signature_by_an_ssh_key_verifies(sums: Path) -> None:
    key = sums.parent / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key), check=True)
    signature = sign(sums, str(key))
    (sums.parent / "signers").write_text(f"releases@example.org {key.with_suffix('.pub').read_text()}")
    verify = ("ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "releases@example.org", "-n", "file")
    for text, status in ((sums.read_bytes(), 0), (b"changed", 255)):
        done = subprocess.run((*verify, "-s", signature), cwd=sums.parent, input=text, check=False)
        assert done.returncode == status


@pytest.mark.skipif(not shutil.which("gpg"), reason="there is no gpg")
def test_a_signature_by_a_key_of_gnupg_verifies(
    sums: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    made = ("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "releases@example.org")
    subprocess.run((*made, "ed25519", "sign"), check=True)
    try:
        signature = sign(sums, "releases@example.org")
        verify = ("gpg", "--batch", "--verify", signature, sums)
        assert subprocess.run(verify, check=False).returncode == 0
        sums.write_text("changed")
        assert subprocess.run(verify, check=False).returncode == 1
    finally:
        subprocess.run(("gpgconf", "--kill", "all"), check=True)


def test_a_key_that_cannot_sign_is_refused(sums: Path) -> None:
    (sums.parent / "key").write_text("no key\n")
    with pytest.raises(ReleaseError, match=r"^sign: ssh-keygen ended with status"):
        sign(sums, str(sums.parent / "key"))


def test_each_package_has_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_text()
    packages = [path.parent for path in ROOT.glob("packages/*/pyproject.toml")]
    assert [path.name for path in packages if (path / "LICENSE").read_text() != licence] == []
