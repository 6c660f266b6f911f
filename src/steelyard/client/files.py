"""Files on their way to and from storage: digests, uploads and downloads by signed addresses."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import httpx

from steelyard.client.errors import TransferFailed
from steelyard.schema.answers import ArtifactURL, StorageSignedURL
from steelyard.schema.data import Artifact, Digest, File

CHUNK = 1 << 20
TIMEOUT = httpx.Timeout(60.0, read=900.0)
Progress = Callable[[str, int, int], None]
"""Called with a file's path, the bytes done and the bytes in all."""


def quiet(name: str, done: int, total: int) -> None:
    """No progress is shown."""


def files_below(folder: Path) -> list[Path]:
    """Every file, sorted; what begins with a dot is left out. Raises TransferFailed for a folder without any."""
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise TransferFailed(f"{folder}: there is no file in it")
    return found


def artifacts_of(folder: Path) -> list[Artifact]:
    """The folder's files as a dataset or a module names them."""
    return [
        Artifact(
            kind="".join(path.suffixes).lstrip(".") or None,
            path=path.relative_to(folder).as_posix(),
            digest=Digest(md5=md5_of(path)),
        )
        for path in files_below(folder)
    ]


def volume_of(folder: Path) -> list[File]:
    """The folder's files as a model's volume names them."""
    return [
        File(
            path=path.relative_to(folder).as_posix(),
            size=path.stat().st_size,
            digest=Digest(md5=md5_of(path)),
        )
        for path in files_below(folder)
    ]


def md5_of(path: Path) -> str:
    """Base64 of the MD5, as in Content-MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    for piece in _pieces(path):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def put(http: httpx.Client, link: StorageSignedURL, path: Path, name: str, progress: Progress) -> None:
    """Upload one file. Raises TransferFailed."""
    size = path.stat().st_size

    def content() -> Iterator[bytes]:
        done = 0
        for piece in _pieces(path):
            yield piece
            done += len(piece)
            progress(name, done, size)

    headers = {**link.headers, "content-length": str(size)}
    try:
        answer = http.request(link.method, link.url, content=content(), headers=headers, timeout=TIMEOUT)
    except httpx.TransportError as error:
        raise TransferFailed(f"{name}: the upload broke off: {error}") from error
    if answer.is_error:
        raise TransferFailed(f"{name}: the upload was refused: {answer.text[:300]} ({answer.status_code})")


def fetch_all(
    http: httpx.Client, links: Sequence[ArtifactURL], folder: Path, progress: Progress
) -> list[Path]:
    """Download everything below a folder that is not there yet, or is empty. Raises TransferFailed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TransferFailed(f"{folder}: is there already; name a folder that is not")
    folder.mkdir(parents=True, exist_ok=True)
    return [_fetch(http, link, folder, progress) for link in _leaves(links)]


def _leaves(links: Sequence[ArtifactURL]) -> Iterable[ArtifactURL]:
    """Without links to folders, which some servers name beside the files in them."""
    paths = [link.artifact.path for link in links]
    return [
        link
        for link, path in zip(links, paths, strict=True)
        if not any(other.startswith(f"{path}/") for other in paths)
    ]


def _fetch(http: httpx.Client, link: ArtifactURL, folder: Path, progress: Progress) -> Path:
    """Under another name first: a file that has its name is whole."""
    name = link.artifact.path
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise TransferFailed(f"{name}: leads out of the folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with (
            http.stream("GET", link.signedURL.url, headers=link.signedURL.headers, timeout=TIMEOUT) as answer,
            part.open("wb") as file,
        ):
            if answer.is_error:
                raise TransferFailed(f"{name}: the download was refused ({answer.status_code})")
            total, done = int(answer.headers.get("content-length", "0")), 0
            for piece in answer.iter_raw(CHUNK):
                file.write(piece)
                done += len(piece)
                progress(name, done, total)
    except httpx.TransportError as error:
        raise TransferFailed(f"{name}: the download broke off: {error}") from error
    if total and done != total:
        raise TransferFailed(f"{name}: {done} bytes came of {total}")
    wanted = link.artifact.digest.md5
    if wanted is not None and md5_of(part) != wanted:
        raise TransferFailed(f"{name}: its MD5 is not {wanted}")
    os.replace(part, target)
    return target


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def arrow_schema_of(folder: Path) -> str:
    """The schema of the folder's first Parquet file, as a Dataset carries it: base64 of its serialised form.

    Raises TransferFailed without pyarrow, and for a folder without Parquet.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TransferFailed("pyarrow is needed to read the schema: pip install 'steelyard[eval]'") from error
    for path in files_below(folder):
        if path.suffix == ".parquet":
            return base64.b64encode(pq.read_schema(path).serialize().to_pybytes()).decode()
    raise TransferFailed(f"{folder}: there is no .parquet file in it; give the schema yourself")
