"""The kinds of entities that have revisions: all but revisions and histories themselves, and quotas."""

from typing import Annotated

from pydantic import Field

from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.challenge import Challenge
from steelyard.schema.concern import Hazard, UseCase
from steelyard.schema.data_source import DataSource
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.family import Family
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.measurement import Measurement
from steelyard.schema.method import Method
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.oci_artifact import OCIArtifact
from steelyard.schema.pipeline import Pipeline
from steelyard.schema.pipeline_run import PipelineRun
from steelyard.schema.report import Report
from steelyard.schema.safety_case import SafetyCase
from steelyard.schema.submission import Submission
from steelyard.schema.team import Team

AnyRevisable = (
    Audit
    | AuditProcedure
    | Challenge
    | DataSource
    | Dataset
    | Evaluation
    | Family
    | Hazard
    | InferenceService
    | InferenceSession
    | Measurement
    | Method
    | Model
    | Module
    | OCIArtifact
    | Pipeline
    | PipelineRun
    | Report
    | SafetyCase
    | Submission
    | Team
    | UseCase
)
Revisable = Annotated[AnyRevisable, Field(discriminator="kind")]
