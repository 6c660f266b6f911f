"""The kinds of entities that have revisions: all but revisions and histories themselves, and quotas."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.audit import Audit, AuditProcedure
from steelyard_schema.challenge import Challenge
from steelyard_schema.concern import Hazard, UseCase
from steelyard_schema.data_source import DataSource
from steelyard_schema.dataset import Dataset
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.family import Family
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.method import Method
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.oci_artifact import OCIArtifact
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.report import Report
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team

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
