"""Routes of the workflows of entities: progress, logs, termination, reruns."""

from collections.abc import Iterator
from functools import partial

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Parameter, Route, number
from steelyard.api.workflows.log_stream import log_stream
from steelyard.api.workflows.logs import whole_log, workflow_logs
from steelyard.api.workflows.pod_logs import MOST_LINES
from steelyard.api.workflows.progress import progress
from steelyard.api.workflows.reruns import rerun
from steelyard_schema.answers import ArtifactURL, Status, WorkflowLogsResponse, WorkflowProgress
from steelyard_schema.entities import ENTITIES
from steelyard_schema.requests import WorkflowRerunRequest

_LOG_PARAMETERS = (
    Parameter("limit", "Maximum lines; 1000 unless given.", number(MOST_LINES)),
    Parameter("since", "A time span such as 30m, 1h or 2d."),
)


def workflow_routes(collection: Collection) -> Iterator[Route]:
    resource = collection.resource
    one, data = f"{collection.path}/{{id}}", Grant(resource, "data")
    terminate, create = collection.terminate, Grant(resource, "create")
    made = collection.answer or ENTITIES[collection.kind]
    yield Route("PUT", f"{one}/terminate", Grant(resource, "terminate"), terminate, "Terminate", None, Status)
    again = partial(rerun, collection)
    yield Route("POST", f"{one}/rerun", create, again, "Run again", WorkflowRerunRequest, made)
    yield Route(
        "GET", f"{one}/progress", Grant(resource, "get"), progress, "How far it is, and what it waits for", None,
        WorkflowProgress,
    )  # fmt: skip
    yield Route("GET", f"{one}/logs", data, whole_log, "The whole log", None, ArtifactURL, errors=(400, 409))
    yield Route(
        "GET", f"{one}/logs/workflow", data, workflow_logs, "Newest lines of the log", None, WorkflowLogsResponse,
        _LOG_PARAMETERS,
    )  # fmt: skip
    yield Route("WEBSOCKET", f"{one}/logs/workflow/stream", data, log_stream, "Lines as they are written")
