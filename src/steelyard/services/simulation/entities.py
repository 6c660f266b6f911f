"""Entities for tests of the services; a test gives the fields that matter by keyword."""

from datetime import UTC, datetime
from typing import Any

from steelyard_common.types import Json
from steelyard_schema.audit import Audit
from steelyard_schema.base import DyffEntity
from steelyard_schema.data_source import DataSource
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import DATA_SOURCE
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.method import Method
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.report import Report
from steelyard_schema.safety_case import SafetyCase

START = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = "a" * 32
DIGEST = "sha256:" + "0" * 64
IMAGE: Json = {"host": "localhost", "name": "steelyard/runner-sklearn", "digest": DIGEST}
SCHEMA: Json = {"arrowSchema": "AAAA"}
MOUNT: Json = {
    "kind": "Data",
    "name": "model",
    "mountPath": "/dyff/mnt/volume",
    "data": {"source": {"kind": "Model", "id": "m1"}},
}


def make_base(id: str, **fields: Any) -> Json:
    return {"id": id, "account": ACCOUNT, "creationTime": START, "status": "Created", **fields}


def make_runner(**fields: Any) -> Json:
    return {"kind": "container", "image": IMAGE, "resources": {"cpu": "100m"}, **fields}


def make_service_fields(id: str = "s1", **fields: Any) -> Json:
    """Return the fields of an InferenceService that sessions and evaluations embed."""
    interface = {"endpoint": "predict", "outputSchema": SCHEMA}
    base = {"id": id, "account": ACCOUNT, "name": "digits", "runner": make_runner(), "interface": interface}
    return {**base, **fields}


def make_dataset(id: str = "d1", **fields: Any) -> Dataset:
    artifacts = [{"kind": "parquet", "path": "data.parquet"}]
    return Dataset.parse(
        {**make_base(id), "name": "digits", "artifacts": artifacts, "schema": SCHEMA, **fields}
    )


def make_data_source(id: str = "c1", **fields: Any) -> DataSource:
    base = {"name": "digits", "sourceKind": "huggingface", "source": "org/digits@main"}
    return DataSource.parse({**make_base(id), **base, **fields})


def make_dataset_of_source(id: str = "d2", source: str = "c1", **fields: Any) -> Dataset:
    return make_dataset(id, annotations=[{"key": DATA_SOURCE, "value": source}], **fields)


def make_model(id: str = "m1", **fields: Any) -> Model:
    base = {
        **make_base(id),
        "name": "digits-small",
        "artifact": {"kind": "Volume", "volume": {"files": []}},
        "source": {"kind": "Mock"},
        "resources": {"storage": "1Mi"},
    }
    return Model.parse({**base, **fields})


def make_service(id: str = "s1", **fields: Any) -> InferenceService:
    return InferenceService.parse({**make_base(id), **make_service_fields(id), **fields})


def make_session(id: str = "i1", **fields: Any) -> InferenceSession:
    return InferenceSession.parse({**make_base(id), "inferenceService": make_service_fields(), **fields})


def make_evaluation(id: str = "e1", **fields: Any) -> Evaluation:
    session = {"replicas": 2, "inferenceService": make_service_fields()}
    return Evaluation.parse({**make_base(id), "dataset": "d1", "inferenceSession": session, **fields})


def make_report(id: str = "r1", **fields: Any) -> Report:
    base = {"rubric": "classification.Classification", "evaluation": "e1", "dataset": "d1"}
    return Report.parse({**make_base(id), **base, "inferenceService": "s1", **fields})


def make_audit(id: str = "u1", **fields: Any) -> Audit:
    return Audit.parse({**make_base(id), "auditProcedure": "p1", "inferenceService": "s1", **fields})


def make_method_fields(id: str = "t1", **fields: Any) -> Json:
    """Return the fields of a Method that analyses embed."""
    function = {"fullyQualifiedName": "counting.count"}
    return {
        "id": id,
        "account": ACCOUNT,
        "name": "counting",
        "scope": "InferenceService",
        "implementation": {"kind": "PythonFunction", "pythonFunction": function},
        "inputs": [{"keyword": "data", "kind": "Dataset"}],
        "output": {"kind": "SafetyCase", "safetyCase": {"name": "counts"}},
        "modules": ["x1"],
        **fields,
    }


def make_method(id: str = "t1", **fields: Any) -> Method:
    return Method.parse({**make_base(id), **make_method_fields(id), "status": "Ready", **fields})


def make_module(id: str = "x1", **fields: Any) -> Module:
    artifacts = [{"kind": "py", "path": "counting.py"}]
    return Module.parse({**make_base(id), "name": "counting", "artifacts": artifacts, **fields})


def make_safety_case(id: str = "f1", **fields: Any) -> SafetyCase:
    base = {"name": "counts", "inputs": [{"keyword": "data", "entity": "d1"}], "method": make_method_fields()}
    return SafetyCase.parse({**make_base(id), **base, **fields})


def make_measurement(id: str = "n1", **fields: Any) -> Measurement:
    described = {"name": "counts", "level": "Dataset", "schema": SCHEMA}
    method = make_method_fields(output={"kind": "Measurement", "measurement": described})
    base = {**described, "inputs": [{"keyword": "data", "entity": "d1"}], "method": method}
    return Measurement.parse({**make_base(id), **base, **fields})


def make_all_kinds() -> tuple[DyffEntity, ...]:
    """Return one entity of each kind that has a custom resource."""
    return (
        make_data_source(),
        make_dataset_of_source(),
        make_model(),
        make_service(),
        make_session(),
        make_evaluation(),
        make_report(),
        make_audit(),
        make_measurement(),
        make_safety_case(),
    )
