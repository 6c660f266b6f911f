"""Routes that only pipelines have: their runs."""

from collections.abc import Iterator
from dataclasses import replace

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.pipelines.progress import run_status, run_workflows
from steelyard.api.pipelines.reruns import rerun
from steelyard_schema.answers import PipelineRunStatus, Status
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.requests import RerunRequest


def run_routes(collection: Collection) -> Iterator[Route]:
    """Yield the creation of a run, and the routes about its workflows."""
    resource, one = collection.resource, f"{collection.path}/{{id}}"
    get = Grant(resource, "get")
    yield Route(
        "POST", "/v0/pipelines/{id}/runs", Grant(resource, "create"), collection.create, "Run", collection.request,
        PipelineRun,
    )  # fmt: skip
    again = replace(collection, request=RerunRequest, build=rerun)
    yield Route(
        "POST",
        f"{one}/rerun",
        Grant(resource, "create"),
        again.create,
        "Run again",
        RerunRequest,
        PipelineRun,
    )
    yield Route(
        "PUT",
        f"{one}/terminate",
        Grant(resource, "terminate"),
        collection.terminate,
        "Terminate",
        None,
        Status,
    )
    yield Route("GET", f"{one}/status", get, run_status, "Status of its workflows", None, PipelineRunStatus)
    yield Route(
        "GET", f"{one}/workflows", get, run_workflows, "Its workflows by nodes", None, dict[str, object]
    )
