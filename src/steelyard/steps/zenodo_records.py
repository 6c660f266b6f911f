"""Records of Zenodo: the files of one version, with the MD5 that Zenodo states."""

from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.steps.downloads import Downloads
from steelyard.steps.source_files import Listing, SourceFile, fail
from steelyard_schema.faults import faults_text
from steelyard_schema.source_addresses import ZenodoRecord

_TEXT = 1000


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)


class _Links(_Part):
    self: str | None = None


class _File(_Part):
    key: str
    size: int | None = Field(default=None, ge=0)
    checksum: str | None = None
    links: _Links = _Links()


class _License(_Part):
    id: str | None = None


class _Metadata(_Part):
    title: str = ""
    version: str | None = None
    doi: str | None = None
    license: _License | None = None


class _Record(_Part):
    id: int = Field(ge=0)
    doi: str | None = None
    metadata: _Metadata = _Metadata()
    files: list[_File] | None = None


async def list_record(address: ZenodoRecord, downloads: Downloads) -> Listing:
    """Return the files of a record. The number of all versions leads to the newest one."""
    root = f"{address.origin}/api/records"
    answer = await downloads.read_json(f"{root}/{address.record}")
    try:
        record = _Record.model_validate(answer)
    except ValidationError as error:
        text = faults_text(error)
        raise fail(f"{root}/{address.record} answers what is not a record: {text}") from error
    if record.files is None:
        raise fail(f"the files of record {record.id} are not public")
    metadata = record.metadata
    origin = {
        "kind": "zenodo",
        "origin": address.origin,
        "record": str(record.id),
        "asked": address.record,
        "doi": record.doi or metadata.doi,
        "title": metadata.title,
        "version": metadata.version,
        "license": metadata.license.id if metadata.license else None,
    }
    content = f"{root}/{record.id}/files"
    files = [_file(file, f"{content}/{quote(file.key)}/content") for file in record.files]
    return Listing(
        str(record.id), {name: text[:_TEXT] for name, text in origin.items() if text is not None}, files
    )


def _file(file: _File, url: str) -> SourceFile:
    method, _, digest = (file.checksum or "").rpartition(":")
    return SourceFile(
        file.key,
        file.links.self or url,
        file.size,
        md5=digest if digest and method in ("", "md5") else None,
        sha256=digest if method == "sha256" else None,
    )
