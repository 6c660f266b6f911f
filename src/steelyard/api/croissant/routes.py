"""The routes of a dataset's Croissant metadata."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response

from steelyard.api.croissant.facts import Facts
from steelyard.api.croissant.reading import NotCroissant, full_page, read
from steelyard.api.croissant.writing import DataFile, column_names, croissant
from steelyard.api.datasets.delivery import read_content
from steelyard.api.datasets.downlinks import check_final
from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid
from steelyard.api.http.responses import model_response, value_response
from steelyard.api.http.routing import Route
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import ObjectMissing
from steelyard_schema.answers import CroissantTaken
from steelyard_schema.bounds import FREE_DEPTH, SUMMARY_LENGTH, TITLE_LENGTH, Unkeepable, check_json
from steelyard_schema.commands import (
    DocumentationAttributes,
    DocumentationData,
    DocumentationPatch,
    EditEntityDocumentation,
)
from steelyard_schema.dataset import Dataset
from steelyard_schema.names import CROISSANT, MANIFEST, SOURCE_CROISSANT, place
from steelyard_schema.requests import CroissantTakeRequest


def croissant_routes(collection: Collection) -> Iterator[Route]:
    """Yield the routes below a dataset."""
    path = f"{collection.path}/{{id}}/croissant"
    yield Route(
        "GET", path, Grant("datasets", "get"), describe, "Describe as Croissant", None, dict[str, Any], errors=(409,)
    )  # fmt: skip
    yield Route(
        "PUT", path, Grant("datasets", "edit"), take, "Take the description of a Croissant file", CroissantTakeRequest,
        CroissantTaken, errors=(409,),
    )  # fmt: skip


@dataclass(frozen=True)
class _Content:
    """Content of a dataset's manifest: its files, and the schema of their rows."""

    files: list[DataFile]
    schema: str


async def describe(context: RequestContext) -> Response:
    """The dataset as Croissant 1.0 (JSON-LD), with paths relative to the downloaded files."""
    dataset = await _dataset(context)
    check_final(context, dataset)
    kept = await _read_content(context, dataset)
    facts = Facts.parse(await _object(context, dataset, CROISSANT) or {})
    return value_response(await asyncio.to_thread(croissant, dataset, kept.files, kept.schema, facts))


async def take(context: RequestContext) -> Response:
    """The parts that were taken into the documentation, and those that were left out.

    Without a file in the body, that of the dataset's data source is taken.
    """
    content = (await context.body(CroissantTakeRequest)).croissant
    dataset = await _dataset(context)
    if content is None:
        content = await _file_of_source(context, dataset)
    kept = await _read_content(context, dataset)
    columns = await asyncio.to_thread(column_names, kept.schema)
    try:
        reading = read(content, columns, {file.path: file.sha256 for file in kept.files})
    except NotCroissant as error:
        raise Invalid(f"croissant.{error}", field=f"croissant.{str(error).partition(':')[0]}") from error
    facts = reading.facts
    patch = DocumentationPatch(
        title=(facts.name or "")[:TITLE_LENGTH],
        summary=(facts.description or "")[:SUMMARY_LENGTH],
        fullPage=full_page(facts),
    )
    attributes = DocumentationAttributes(documentation=patch)
    command = EditEntityDocumentation(
        data=DocumentationData(id=dataset.id, kind="Dataset", attributes=attributes)
    )
    # The edit may be refused, and then nothing is kept. A request that dies in between is completed by its repeat.
    await context.api.commands.edit(command, context.command_origin(), context.now)
    store, key = context.api.platform.store, f"{place('Dataset', dataset.id)}/{CROISSANT}"
    await store.put(key, orjson.dumps(facts.dump()))
    taken = [name for name, value in facts.dump().items() if value]
    return model_response(CroissantTaken(taken=taken, leftOut=reading.left_out))


async def _file_of_source(context: RequestContext, dataset: Dataset) -> Json:
    """Return the Croissant file of the dataset's data source. Raises Conflict, Invalid."""
    content = await _object(context, dataset, SOURCE_CROISSANT)
    if content is None:
        raise Conflict(
            f"croissant: is missing, and the data source of dataset {dataset.id} holds no croissant.json",
            field="croissant",
        )
    try:
        check_json(content, FREE_DEPTH)  # as of a file in a body: databases and JSON parsers take no other
    except Unkeepable as error:
        raise Invalid(f"croissant.{error}", field="croissant") from error
    return content


async def _dataset(context: RequestContext) -> Dataset:
    entity = await load(context)
    assert isinstance(entity, Dataset)
    return entity


async def _read_content(context: RequestContext, dataset: Dataset) -> _Content:
    """Return the files of the manifest, and the schema: of a dataset of a data source, the one that it found."""
    manifest = await _object(context, dataset, MANIFEST) or {"files": []}
    files = [DataFile(file["path"], file["size"], file["sha256"]) for file in manifest["files"]]
    return _Content(files, manifest.get("arrowSchema") or dataset.schema_.arrowSchema)


async def _object(context: RequestContext, dataset: Dataset, key: str) -> Json | None:
    try:
        content = await read_content(context.api.platform.store, f"{place('Dataset', dataset.id)}/{key}")
    except ObjectMissing:
        return None
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Invalid(f"{key.rpartition('/')[2]}: is not a JSON object", field="croissant")
    return value
