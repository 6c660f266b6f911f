"""The table of kinds: which request makes an entity, and what may be done with it. The route table follows from it."""

from dataclasses import dataclass

from steelyard.api.audits.creation import audit, audit_procedure
from steelyard.api.datasets.creation import dataset, model, module
from steelyard.api.entities.creation import Build
from steelyard.api.evaluations.creation import evaluation
from steelyard.api.inference_services.creation import inference_service
from steelyard.api.inference_sessions.sessions import inference_session
from steelyard.api.reports.creation import report


@dataclass(frozen=True)
class Kind:
    """One row."""

    name: str
    build: Build
    uploads: bool = False
    downlinks: bool = False
    logs: bool = False
    """Whether it has a workflow, and so logs, and can be terminated."""
    privileged: bool = False
    """Whether an administrator may give it a securityContext."""


KINDS = (
    Kind("Dataset", dataset, uploads=True, downlinks=True),
    Kind("Module", module, uploads=True, downlinks=True),
    Kind("Model", model, uploads=True, logs=True),
    Kind("InferenceService", inference_service, logs=True),
    Kind("InferenceSession", inference_session, logs=True, privileged=True),
    Kind("Evaluation", evaluation, downlinks=True, logs=True, privileged=True),
    Kind("Report", report, downlinks=True, logs=True),
    Kind("AuditProcedure", audit_procedure),
    Kind("Audit", audit, downlinks=True, logs=True),
)
