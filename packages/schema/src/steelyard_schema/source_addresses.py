"""Addresses of data sources: what the field `source` may name, for each kind of place that data is fetched from.

The API checks an address when a data source is created; the step that fetches it reads the same value.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

SourceKind = Literal["huggingface", "zenodo"]
"""Kinds of places that data is fetched from."""
SOURCE_KINDS: tuple[str, ...] = get_args(SourceKind)
HUB = "https://huggingface.co"
ZENODO = "https://zenodo.org"

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")
_RECORD = re.compile(r"[0-9]{1,18}")
_DOI = re.compile(r"10\.[0-9]{4,9}/zenodo\.([0-9]{1,18})", re.IGNORECASE)


@dataclass(frozen=True)
class HubDataset:
    """A revision of a dataset's repository on the Hugging Face hub, or on a server that answers like it."""

    origin: str
    repository: str
    revision: str

    @property
    def takes_token(self) -> bool:
        """Return whether the place is the hub itself."""
        return self.origin == HUB


@dataclass(frozen=True)
class ZenodoRecord:
    """A record of Zenodo, or of a server that answers like it."""

    origin: str
    record: str

    @property
    def takes_token(self) -> bool:
        """Return whether the place is Zenodo itself."""
        return self.origin == ZENODO


SourceAddress = HubDataset | ZenodoRecord


def source_address(kind: str, source: str | None) -> SourceAddress:
    """Return the address that `source` names. Raises ValueError, which says what it should be."""
    if kind not in SOURCE_KINDS:
        raise ValueError(f"sourceKind {kind!r} is not fetched; there are {', '.join(SOURCE_KINDS)}")
    if not source:
        raise ValueError("source is missing; it should name the data, such as OWNER/NAME@REVISION")
    return _hub_dataset(source) if kind == "huggingface" else _zenodo_record(source)


def _hub_dataset(source: str) -> HubDataset:
    origin, path = _split(source.removeprefix("hf://"), HUB)
    path = path.removeprefix("datasets/")
    # The hub's own pages name a revision by /tree/, its libraries by @.
    repository, _, revision = path.partition("/tree/") if "/tree/" in path else path.partition("@")
    revision = revision or "main"
    plain = _REPOSITORY.fullmatch(repository) and _REVISION.fullmatch(revision)
    if not plain or ".." in repository or ".." in revision or revision.endswith("/"):
        raise ValueError(
            f"{source!r} should be OWNER/NAME or OWNER/NAME@REVISION of a dataset on the hub, or its URL"
        )
    return HubDataset(origin, repository, revision)


def _zenodo_record(source: str) -> ZenodoRecord:
    origin, path = _split(source, ZENODO)
    doi = _DOI.fullmatch(path.removeprefix("doi:"))
    if doi and urlsplit(source).hostname in (None, "doi.org"):
        return ZenodoRecord(ZENODO, doi[1])
    record = path.removeprefix("records/").removeprefix("record/")
    if not _RECORD.fullmatch(record):
        raise ValueError(f"{source!r} should be the number, the DOI or the URL of a record of Zenodo")
    return ZenodoRecord(origin, record)


def _split(source: str, default: str) -> tuple[str, str]:
    """Return the origin and the path of a URL; of anything else, the default origin and the text itself."""
    if not source.startswith(("http://", "https://")):
        return default, source
    parts = urlsplit(source)
    if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{source!r} should be a URL without a user, a password, a query and a fragment")
    return f"{parts.scheme}://{parts.netloc}", unquote(parts.path).strip("/")
