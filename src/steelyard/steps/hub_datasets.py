"""Datasets of the Hugging Face hub: the files of one commit, with the digests that the hub states."""

from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.steps.downloads import Downloads
from steelyard.steps.source_files import Listing, SourceFile, fail
from steelyard_common.types import JsonValue
from steelyard_schema.faults import faults_text
from steelyard_schema.source_addresses import HubDataset


class _Lfs(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    sha256: str
    size: int = Field(ge=0)


class _Sibling(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    rfilename: str
    size: int | None = Field(default=None, ge=0)
    blobId: str | None = None  # noqa: N815 - the hub's own name
    lfs: _Lfs | None = None


class _Info(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    sha: str = Field(pattern="^[0-9a-f]{40,64}$")
    siblings: list[_Sibling] = []


async def list_dataset(address: HubDataset, downloads: Downloads) -> Listing:
    """Return the files of the commit that the revision names now."""
    repository, root = address.repository, f"{address.origin}/api/datasets/{address.repository}"
    answer = await downloads.read_json(f"{root}/revision/{quote(address.revision, safe='')}?blobs=true")
    try:
        info = _Info.model_validate(answer)
    except ValidationError as error:
        raise fail(f"{root} answers what is not a description of a dataset: {faults_text(error)}") from error
    # The commit, not the branch: it may move while files are fetched.
    base = f"{address.origin}/datasets/{repository}/resolve/{info.sha}"
    origin = {
        "kind": "huggingface",
        "origin": address.origin,
        "repository": repository,
        "revision": address.revision,
        "commit": info.sha,
    }
    files = [_file(sibling, f"{base}/{quote(sibling.rfilename)}") for sibling in info.siblings]
    return Listing(info.sha, origin, files)


async def describe_dataset(address: HubDataset, downloads: Downloads) -> JsonValue:
    """Return the Croissant file that the hub has written about the dataset, of whatever revision."""
    return await downloads.read_json(f"{address.origin}/api/datasets/{address.repository}/croissant")


def _file(sibling: _Sibling, url: str) -> SourceFile:
    if sibling.lfs:
        return SourceFile(sibling.rfilename, url, sibling.lfs.size, sha256=sibling.lfs.sha256)
    # The id of a blob in a repository of SHA-256 is no SHA-1.
    git = sibling.blobId if sibling.blobId and len(sibling.blobId) == 40 else None
    return SourceFile(sibling.rfilename, url, sibling.size, git=git)
