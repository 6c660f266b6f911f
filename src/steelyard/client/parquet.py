"""The schema of a dataset's Parquet files. This and `presets.py` need pyarrow, and only when called."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.client.errors import BadFiles, MissingPackage

if TYPE_CHECKING:
    import pyarrow as pa

INDEX = "_index_"


def arrow_schema_of(files: Mapping[str, Path]) -> str:
    """The schema that all the Parquet files share, as a Dataset carries it: base64 of its serialised form.

    Raises MissingPackage without pyarrow, and BadFiles without a Parquet file, for files that differ, and for rows
    without `_index_`.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPackage(
            "pyarrow is needed to read the schema of Parquet files: pip install 'steelyard[eval]', or give schema="
        ) from error
    schemas: dict[str, pa.Schema] = {}
    for name, path in files.items():
        if path.suffix == ".parquet":
            try:
                schemas[name] = pq.read_schema(path)
            except (pa.ArrowException, OSError) as error:
                raise BadFiles(f"{path}: is not a Parquet file: {error}") from error
    if not schemas:
        raise BadFiles(f"{', '.join(files)}: there is no .parquet file among them; give schema= yourself")
    (first, schema), *others = schemas.items()
    for name, other in others:
        if not other.equals(schema):
            raise BadFiles(f"{name}: has other columns ({_columns(other)}) than {first} ({_columns(schema)})")
    if INDEX not in schema.names or not pa.types.is_integer(schema.field(INDEX).type):
        raise BadFiles(
            f"{first}: has no column {INDEX}, a number for each row; its columns are {_columns(schema)}"
        )
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _columns(schema: "pa.Schema") -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
