"""Routes that only safety cases have: their scores and curves."""

from collections.abc import Iterator

from steelyard.api.analyses.scores import FILES, PARAMETERS, case_handler, query
from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Parameter, Route, number
from steelyard_schema.curve import Curve
from steelyard_schema.score import Score

_PARAMETERS = (
    Parameter("query", "JSON: an object of filters, or a list of objects that all have to hold."),
    *(Parameter(name, f"Only with this {name}.") for name in PARAMETERS),
    Parameter("limit", "Maximum number of scores or curves in the answer.", number()),
    Parameter("after", 'JSON: ["<analysis>", "<id>"] of the last score or curve on the previous page.'),
)


def score_routes(collection: Collection) -> Iterator[Route]:
    get, search = Grant(collection.resource, "get", published=True), Grant(collection.resource, "query")
    for kind, model in (("Score", Score), ("Curve", Curve)):
        name, path = FILES[kind], collection.path
        answer = list[model]  # type: ignore[valid-type]
        yield Route("GET", f"{path}/{{id}}/{name}", get, case_handler(kind), f"Its {name}", None, answer)
        yield Route("GET", f"{path}/{name}", search, query(kind), f"Query {name}", None, answer, _PARAMETERS)
