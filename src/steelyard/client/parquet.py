"""The schema of a dataset's Parquet files. This and `presets.py` need pyarrow, and only when called."""

import base64
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.client.errors import BadFiles, MissingPackage

if TYPE_CHECKING:
    import pyarrow as pa

INDEX = "_index_"


def read_arrow_schema(files: Mapping[str, Path]) -> str:
    """The schema that all the Parquet files share, as a Dataset carries it: base64 of its serialised form.

    Raises MissingPackage without pyarrow, and BadFiles without a Parquet file, for files that differ, for rows without
    `_index_`, and for texts that are not UTF-8.
    """
    try:
        import pyarrow as pa

        from steelyard_common.bounded_parquet import open_parquet
    except ImportError as error:
        raise MissingPackage(
            "pyarrow is needed to read the schema of Parquet files: pip install 'steelyard[eval]', or give schema="
        ) from error
    schemas: dict[str, pa.Schema] = {}
    for name, path in files.items():
        if path.suffix == ".parquet":
            try:
                with open_parquet(path) as file:
                    schemas[name] = file.schema_arrow
            except (pa.ArrowException, OSError) as error:
                raise BadFiles(f"{path}: is not a Parquet file: {error}") from error
    if not schemas:
        raise BadFiles(
            f"{', '.join(files)}: there is no .parquet file among them: give schema= yourself, or "
            "make a dataset of CSV and JSON by way of a data source (client.datasources.create_from_folder)"
        )
    (first, schema), *others = schemas.items()
    for name, other in others:
        if not other.equals(schema):
            raise BadFiles(f"{name}: has other columns ({_columns(other)}) than {first} ({_columns(schema)})")
    if twice := [name for name, count in Counter(schema.names).items() if count > 1]:
        raise BadFiles(f"{first}: the column {twice[0]!r} is there twice")
    if INDEX not in schema.names or not pa.types.is_integer(schema.field(INDEX).type):
        raise BadFiles(
            f"{first}: has no column {INDEX}, a number for each row; its columns are {_columns(schema)}"
        )
    for name in schemas:
        _check_text(name, files[name], schema)
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _check_text(name: str, path: Path, schema: "pa.Schema") -> None:
    """Raise BadFiles for a column of texts that are not UTF-8. Parquet is read without a look at it."""
    import pyarrow as pa

    from steelyard_common.bounded_parquet import batches

    texts = [field.name for field in schema if "string" in str(field.type)]
    for batch in batches(path, 65_536, texts) if texts else ():
        for column_name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise BadFiles(f"{name}: the column {column_name!r}: {error}") from error


def _columns(schema: "pa.Schema") -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
