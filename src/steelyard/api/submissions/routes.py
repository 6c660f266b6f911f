"""Routes that only submissions have: a task's path creates them."""

from collections.abc import Iterator
from dataclasses import replace

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.submissions.creation import resubmission, turn_of_resubmission, turn_of_submission
from steelyard.api.submissions.downlinks import submission_downlinks
from steelyard.api.submissions.ending import terminate
from steelyard_schema.answers import ArtifactURL, Status
from steelyard_schema.requests import ResubmissionRequest
from steelyard_schema.submission import Submission


def submission_routes(collection: Collection) -> Iterator[Route]:
    resource, one = collection.resource, f"{collection.path}/{{id}}"
    create = Grant(resource, "create")
    first = replace(collection, turn=turn_of_submission)
    again = replace(collection, request=ResubmissionRequest, build=resubmission, turn=turn_of_resubmission)
    yield Route(
        "POST", "/v0/challenges/{id}/tasks/{task}/submissions", create, first.create, "Submit",
        collection.request, Submission,
    )  # fmt: skip
    yield Route(
        "POST", f"{one}/resubmit", create, again.create, "Submit again", ResubmissionRequest, Submission
    )
    yield Route(
        "POST", f"{one}/terminate", Grant(resource, "terminate"), terminate, "Terminate", None, Status
    )
    yield Route(
        "GET", f"{one}/downlinks", Grant(resource, "data"), submission_downlinks, "Where to download", None,
        dict[str, list[ArtifactURL]], errors=(400,),
    )  # fmt: skip
