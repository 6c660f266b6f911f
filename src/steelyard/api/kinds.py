"""The kinds of entities: how a create request makes one, and which routes it has."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.api.analyses.creation import measurement, safety_case
from steelyard.api.analyses.routes import score_routes
from steelyard.api.artifacts.creation import artifact
from steelyard.api.artifacts.routes import artifact_routes
from steelyard.api.audits.creation import audit, audit_procedure
from steelyard.api.challenges.creation import challenge
from steelyard.api.challenges.presentation import present_challenges
from steelyard.api.challenges.routes import challenge_routes
from steelyard.api.concerns.creation import hazard, use_case
from steelyard.api.croissant.routes import croissant_routes
from steelyard.api.data_sources.creation import data_source
from steelyard.api.datasets.creation import dataset, model, module
from steelyard.api.entities.collection import Collection, Completed, Ending, Shown
from steelyard.api.entities.creation import Build
from steelyard.api.evaluations.creation import evaluation
from steelyard.api.families.creation import family
from steelyard.api.families.routes import family_routes
from steelyard.api.http.routing import Route
from steelyard.api.inference_services.creation import inference_service
from steelyard.api.inference_services.spending import service_routes
from steelyard.api.inference_sessions.creation import inference_session
from steelyard.api.inference_sessions.routes import session_routes
from steelyard.api.inference_sessions.sessions import with_token
from steelyard.api.methods.creation import method
from steelyard.api.pipelines.creation import pipeline
from steelyard.api.pipelines.ending import end_run
from steelyard.api.pipelines.routes import run_routes
from steelyard.api.pipelines.runs import pipeline_run
from steelyard.api.reports.creation import report
from steelyard.api.submissions.creation import submission
from steelyard.api.submissions.ending import end_submission
from steelyard.api.submissions.routes import submission_routes
from steelyard.api.teams.creation import team
from steelyard.api.teams.routes import team_routes
from steelyard_schema.answers import InferenceSessionAndToken


@dataclass(frozen=True)
class Kind:
    """A kind of entity, and the routes that it has besides those of every kind."""

    name: str
    build: Build
    uploads: bool = False
    downloads: bool = False
    evidence: bool = False
    workflow: bool = False
    """True if it has a workflow: it has logs and progress, and can be terminated."""
    privileged: bool = False
    """True if an administrator may give it a securityContext."""
    path: str = ""
    """Path of the kind's routes below `/v0/`, where it is not the name of the resource."""
    own_routes: Callable[[Collection], Iterator[Route]] | None = None
    """Routes that only this kind has."""
    own_creation: bool = False
    """True if the creation is one of these, too."""
    completed: Completed | None = None
    """Adds to the answer about a new entity what only its creator gets."""
    answer: Any = None
    """Type of the answer about a new entity, if it is not the entity's."""
    ending: Ending | None = None
    """Ends what an entity has created, when a client ends the entity."""
    shown: Shown | None = None
    """Leaves out of an entity what its callers may not see."""


KINDS = (
    Kind("DataSource", data_source, uploads=True, downloads=True, workflow=True),
    Kind("Dataset", dataset, uploads=True, downloads=True, workflow=True, own_routes=croissant_routes),
    Kind("Module", module, uploads=True, downloads=True),
    Kind("OCIArtifact", artifact, own_routes=artifact_routes),
    Kind("Model", model, uploads=True, workflow=True),
    Kind("InferenceService", inference_service, workflow=True, own_routes=service_routes),
    Kind(
        "InferenceSession",
        inference_session,
        workflow=True,
        privileged=True,
        own_routes=session_routes,
        completed=with_token,
        answer=InferenceSessionAndToken,
    ),
    Kind("Evaluation", evaluation, downloads=True, workflow=True, privileged=True),
    Kind("Report", report, downloads=True, evidence=True, workflow=True),
    Kind("AuditProcedure", audit_procedure),
    Kind("Audit", audit, downloads=True, evidence=True, workflow=True),
    Kind("Method", method),
    Kind("Measurement", measurement, downloads=True, workflow=True, privileged=True),
    Kind("SafetyCase", safety_case, downloads=True, workflow=True, privileged=True, own_routes=score_routes),
    Kind("Family", family, own_routes=family_routes),
    Kind("UseCase", use_case),
    Kind("Hazard", hazard),
    Kind("Pipeline", pipeline),
    Kind(
        "PipelineRun",
        pipeline_run,
        path="pipelines/runs",
        own_routes=run_routes,
        own_creation=True,
        ending=end_run,
    ),
    Kind("Challenge", challenge, own_routes=challenge_routes, shown=present_challenges),
    Kind("Team", team, own_routes=team_routes, own_creation=True),
    Kind(
        "Submission",
        submission,
        privileged=True,
        own_routes=submission_routes,
        own_creation=True,
        ending=end_submission,
    ),
)
