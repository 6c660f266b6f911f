"""The manifest: what verification vouches for. Readers of an evaluation's output trust nothing else.

Written once by `verify`; read by reports, downloads and anyone who opens the folder later.
"""

from pydantic import BaseModel, ConfigDict

from steelyard_evaluation.engine import layout
from steelyard_evaluation.storage.checked import get_document
from steelyard_evaluation.storage.store import Store


class FileEntry(BaseModel):
    """One file, by its path under the root and its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: str
    size: int
    sha256: str
    rows: int


class RecordEntry(BaseModel):
    """One record beside the rows, by its path under the root and the digest of its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: str
    sha256: str


class RowCounts(BaseModel):
    """Numbers of rows by kind. `total` follows from the dataset and its replications."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    total: int
    present: int
    errors: int
    missing: int
    duplicates: int


class Manifest(BaseModel):
    """The verified content of an evaluation's output."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schemaVersion: str = "0.1"  # noqa: N815 - a name of the format
    evaluation: str
    replications: list[str]
    inputs: list[FileEntry]
    files: list[FileEntry]
    rows: RowCounts
    parts: list[str]
    """The parts that the files were made from, in order."""
    leftOut: list[str]  # noqa: N815 - a name of the format
    """Parts of fenced-off attempts that came too late to count."""
    # Manifests of earlier versions lack the fields below: with defaults they stay readable.
    asked: dict[str, int] = {}
    """Rows of the parts by the base URL that answered, or refused, them; empty where older parts do not say."""
    unknownEndings: dict[str, int] = {}  # noqa: N815 - a name of the format
    """Answers of the parts by a reason of ending that is not known: neither whole nor cut short."""
    records: list[RecordEntry] = []
    """Records of the run: `run.json`, the servers that were asked, the row errors of the parts."""


async def read_manifest(store: Store) -> Manifest:
    """The manifest of the output in `store`; ObjectMissing when it has not been verified."""
    return Manifest.model_validate_json(await get_document(store, layout.MANIFEST))
