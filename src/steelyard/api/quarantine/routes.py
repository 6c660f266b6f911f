"""Routes of quarantines, for administrators."""

from collections.abc import Iterator

from steelyard.api.http.access import Administrator
from steelyard.api.http.routing import Parameter, Route
from steelyard.api.quarantine import administration
from steelyard_schema.answers import QuarantinedEntity, Status

_CONSUMER = Parameter(
    "consumer", "Only what this consumer has put in quarantine; commands is the aggregator."
)


def quarantine_routes() -> Iterator[Route]:
    path, one, check = "/v0/quarantine", "/v0/quarantine/{id}", Administrator()
    answer, parameters = list[QuarantinedEntity], (_CONSUMER,)
    release, drop = administration.release, administration.drop
    yield Route("GET", path, check, administration.query, "Entities in quarantine", None, answer)
    yield Route(
        "GET", one, check, administration.get, "One, with the messages that wait", None, answer, parameters
    )
    yield Route("PUT", f"{one}/release", check, release, "Try again", None, Status, parameters)
    yield Route("PUT", f"{one}/drop", check, drop, "Go on without it", None, Status, parameters)
