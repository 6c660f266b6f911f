"""Configuration of both steps of an Evaluation: its spec, and the stores of dataset and output."""

from pydantic import ValidationError

from steelyard.steps.common import StepFailed, wait_for_room
from steelyard.steps.volume import input_store
from steelyard_evaluation.storage.store import LONG_PATIENCE, Store, open_store
from steelyard_schema.faults import faults_text
from steelyard_schema.resources import EvaluationResourceSpec
from steelyard_schema.steps import StepConfig


def evaluation_spec(config: StepConfig) -> EvaluationResourceSpec:
    """The Evaluation's spec of a step's configuration."""
    try:
        return EvaluationResourceSpec.model_validate(config.spec)
    except ValidationError as error:
        text = faults_text(error, "spec.", EvaluationResourceSpec)
        raise StepFailed("BadConfiguration", text, permanent=True) from error


def dataset_store(spec: EvaluationResourceSpec) -> Store:
    """Open the store of the dataset."""
    return input_store(spec.storage.inputs, "dataset")


def output_store(spec: EvaluationResourceSpec) -> Store:
    """Open the store of the output."""
    if spec.storage.output is None:
        raise StepFailed("BadConfiguration", "spec.storage.output: is missing", permanent=True)
    return open_store(spec.storage.output, wait_for_room, patience=LONG_PATIENCE)
