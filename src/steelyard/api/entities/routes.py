"""Routes that every kind of entity has."""

from collections.abc import Iterator

from steelyard.api.entities.collection import Collection, ReadCollection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Parameter, Route, number
from steelyard.views.fields import FILTERS, INPUTS, WITH_INPUTS, orders
from steelyard.views.parse import DIRECTIONS, MOST_RESULTS
from steelyard_schema.answers import Documentation, Status
from steelyard_schema.entities import ENTITIES, STORED
from steelyard_schema.publication import PUBLISHED
from steelyard_schema.requests import DocumentationEditRequest, LabelsEditRequest

_QUERY_PARAMETERS = (
    Parameter("query", "JSON: an object of filters, or a list of objects that all have to hold."),
    Parameter("labels", "JSON: an object of labels that the entity has."),
    Parameter("order", "Direction of the order.", {"type": "string", "enum": list(DIRECTIONS)}),
    Parameter("limit", "Maximum entities of the answer.", number(MOST_RESULTS)),
    Parameter("after", 'JSON: ["<value of orderBy>", "<id>"] of the last entity of the page before.'),
)


def creation_routes(collection: Collection) -> Iterator[Route]:
    kind, resource = collection.kind, collection.resource
    check, summary = Grant(resource, "create"), f"Create: {kind}"
    answer = collection.answer or ENTITIES[kind]
    yield Route("POST", collection.path, check, collection.create, summary, collection.request, answer)


def entity_routes(collection: ReadCollection, *, documented: bool = True) -> Iterator[Route]:
    kind, resource = collection.kind, collection.resource
    path, one = collection.path, f"{collection.path}/{{id}}"
    entity = STORED[kind]
    get, edit = Grant(resource, "get", published=kind in PUBLISHED), Grant(resource, "edit")
    filters = tuple(Parameter(name, f"Only with this {name}.") for name in FILTERS[kind])
    if kind in WITH_INPUTS:
        filters += (Parameter(INPUTS, "Only with one of these inputs: ids with commas between them."),)
    order = {"type": "string", "enum": list(orders(kind))}
    filters += (Parameter("orderBy", "Name of a filter, creationTime or lastTransitionTime.", order),)
    yield Route(
        "GET", path, Grant(resource, "query"), collection.query, "Query", None, list[entity],  # type: ignore[valid-type]
        filters + _QUERY_PARAMETERS,
    )  # fmt: skip
    yield Route("GET", one, get, collection.get, "Get", None, entity)
    yield Route("PUT", f"{one}/delete", Grant(resource, "delete"), collection.delete, "Delete", None, Status)
    yield Route("PATCH", f"{one}/labels", edit, collection.label, "Edit labels", LabelsEditRequest)
    if not documented:
        return
    documentation, change = f"{one}/documentation", collection.edit_documentation
    yield Route("GET", documentation, get, collection.documentation, "Documentation", None, Documentation)
    yield Route(
        "PATCH",
        documentation,
        edit,
        change,
        "Edit documentation",
        DocumentationEditRequest,
        Documentation,
    )
