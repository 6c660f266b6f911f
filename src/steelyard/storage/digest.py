"""SHA-256 digests of local files. Everything that records or checks a file uses this function."""

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """Return the digest of a file as hexadecimal text, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
