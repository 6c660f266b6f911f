"""Checksums of a release, and a signature of the checksums."""

from collections.abc import Iterable
from pathlib import Path

from tests.release.bill import digest_file
from tests.release.steps import run

SUMS = "SHA256SUMS"
NAMESPACE = "file"
"""Purpose under which ssh-keygen signs, as for any file."""


def write_sums(dist: Path, files: Iterable[Path]) -> Path:
    """Write the digests as `sha256sum --check` reads them."""
    sums = dist / SUMS
    sums.write_text("".join(f"{digest_file(path)}  {path.name}\n" for path in sorted(files)))
    return sums


def sign(sums: Path, key: str) -> Path:
    """Sign with an SSH key where `key` is its file, or its public half that an agent completes; else with GnuPG's."""
    if Path(key).exists():
        run(
            "sign",
            "ssh-keygen",
            "-q",
            "-Y",
            "sign",
            "-n",
            NAMESPACE,
            "-f",
            Path(key).resolve(),
            sums,
            at=sums.parent,
        )
        return sums.with_name(f"{SUMS}.sig")
    signature = sums.with_name(f"{SUMS}.asc")
    run(
        "sign", "gpg", "--batch", "--yes", "--local-user", key, "--armor", "--output", signature,
        "--detach-sign", sums, at=sums.parent,
    )  # fmt: skip
    return signature
