"""Transfers of one file to or from storage, by a signed URL: without the token, checked by size and digest."""

import filecmp
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from steelyard.client.errors import LinkExpired, TransferBroken, TransferFailed
from steelyard.client.files import CHUNK, md5_digest, pieces
from steelyard.client.flow import Carrier
from steelyard.client.retries import RETRIED
from steelyard_schema.answers import ArtifactURL, StorageSignedURL

TIMEOUT = httpx.Timeout(60.0, read=900.0)
"""Time-outs of a transfer: storage may take long between the last byte and its answer."""
Progress = Callable[[str, int, int], None]
"""Called with a file's path, the bytes done and the bytes in all; by the async client on another thread."""


def quiet(name: str, done: int, total: int) -> None:
    """Show no progress."""


def put(carrier: Carrier, link: StorageSignedURL, path: Path, name: str, progress: Progress) -> None:
    """Upload a file. Raises TransferFailed, BadFiles."""
    size = path.stat().st_size
    if link.method != "PUT":
        raise TransferFailed(f"{name}: the platform asks for {link.method}, which this client does not know")

    def content() -> Iterator[bytes]:
        done = 0
        for piece in pieces(path):
            _check_wanted(carrier, name)
            yield piece
            done += len(piece)
            progress(name, done, size)

    try:
        # With a length, since S3 takes no upload in chunks by a signed URL.
        headers = {**link.headers, "content-length": str(size)}
        answer = carrier.http.put(link.url, content=content(), headers=headers, timeout=TIMEOUT)
    except httpx.RequestError as error:
        raise TransferBroken(f"{name}: the upload broke off: {_text(error)}") from error
    if not answer.is_success:
        raise _refuse(name, "upload", answer)
    if size == 0:
        progress(name, 0, 0)


def fetch(carrier: Carrier, link: ArtifactURL, target: Path, progress: Progress) -> Path:
    """Download a file, unless it is there already with the same content. Raises TransferFailed.

    It is written under another name first: a file with its own name is complete.
    """
    name, digest = link.artifact.path, link.artifact.digest.md5
    if digest is not None and target.is_file() and md5_digest(target) == digest:
        progress(name, target.stat().st_size, target.stat().st_size)
        return target
    # A name of its own for each try: two downloads into one folder must not write into one file.
    part = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _receive(carrier, link, part, progress)
            _check_and_rename(part, target, digest, name)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise TransferFailed(f"{target}: cannot be written: {error.strerror or error}") from error
    return target


def _receive(carrier: Carrier, link: ArtifactURL, part: Path, progress: Progress) -> None:
    name, done = link.artifact.path, 0
    # Compressed on the way, size and digest would be those of other bytes.
    headers = {**link.signedURL.headers, "accept-encoding": "identity"}
    try:
        with (
            carrier.http.stream("GET", link.signedURL.url, headers=headers, timeout=TIMEOUT) as answer,
            part.open("xb") as file,
        ):
            if not answer.is_success:
                answer.read()
                raise _refuse(name, "download", answer)
            total = int(answer.headers.get("content-length", -1))
            for piece in answer.iter_raw(CHUNK):
                _check_wanted(carrier, name)
                file.write(piece)
                done += len(piece)
                progress(name, done, max(total, done))
    except httpx.RequestError as error:
        raise TransferBroken(f"{name}: the download broke off: {_text(error)}") from error
    if total not in {-1, done}:
        raise TransferBroken(f"{name}: {done} bytes came of {total}")
    if done == 0:
        progress(name, 0, 0)


def _check_and_rename(part: Path, target: Path, wanted: str | None, name: str) -> None:
    """Check a file's digest and give it its name, unless another file has the name."""
    if wanted is not None and (digest := md5_digest(part)) != wanted:
        raise TransferFailed(f"{name}: its MD5 is {digest}, and should be {wanted}")
    if not target.exists():
        with part.open("rb") as file:  # after a power loss, a name must not stand for an empty file
            os.fsync(file.fileno())
        os.replace(part, target)
    elif not target.is_file() or not filecmp.cmp(part, target, shallow=False):
        raise TransferFailed(f"{target}: is there already, with other content")


def find_target(folder: Path, name: str) -> Path:
    """Return the path of a file in the folder. Raises TransferFailed for one that leads out of it."""
    target = folder / name
    # The names come from the platform: one with `..`, or through a link, would write anywhere.
    inside = target.resolve().is_relative_to(folder.resolve()) and target.resolve() != folder.resolve()
    if not inside:
        raise TransferFailed(f"{name!r}: leads out of {folder}")
    return target


def _refuse(name: str, what: str, answer: httpx.Response) -> TransferFailed:
    said = answer.text[:300].strip() or answer.reason_phrase
    message = f"{name}: the {what} was refused: {said} ({answer.status_code})"
    if answer.status_code in {*RETRIED, 500}:  # stores answer 500 for failures that pass
        return TransferBroken(message, answer if answer.status_code in RETRIED else None)
    # S3 answers 403 to a signature that has expired; some stores 401.
    return LinkExpired(message) if answer.status_code in {401, 403} else TransferFailed(message)


def _check_wanted(carrier: Carrier, name: str) -> None:
    if carrier.given_up():
        raise TransferFailed(f"{name}: given up")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
