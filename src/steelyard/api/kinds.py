"""The kinds of entities: how a create request makes one, and which routes it has."""

from dataclasses import dataclass

from steelyard.api.audits.creation import audit, audit_procedure
from steelyard.api.datasets.creation import dataset, model, module
from steelyard.api.entities.creation import Build
from steelyard.api.evaluations.creation import evaluation
from steelyard.api.inference_services.creation import inference_service
from steelyard.api.inference_sessions.creation import inference_session
from steelyard.api.reports.creation import report


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


KINDS = (
    Kind("Dataset", dataset, uploads=True, downloads=True),
    Kind("Module", module, uploads=True, downloads=True),
    Kind("Model", model, uploads=True, workflow=True),
    Kind("InferenceService", inference_service, workflow=True),
    Kind("InferenceSession", inference_session, workflow=True, privileged=True),
    Kind("Evaluation", evaluation, downloads=True, workflow=True, privileged=True),
    Kind("Report", report, downloads=True, evidence=True, workflow=True),
    Kind("AuditProcedure", audit_procedure),
    Kind("Audit", audit, downloads=True, evidence=True, workflow=True),
)
