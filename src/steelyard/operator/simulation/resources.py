"""Resources for tests and for the exploration, as the API would return them; what matters is given by keyword."""

from typing import Any

from steelyard_common.types import Json

NAMESPACE = "default"
SCHEMA: Json = {"arrowSchema": "AAAA"}
DIGEST = "sha256:" + "0" * 64
IMAGE: Json = {"host": "localhost", "name": "steelyard/runner-sklearn", "digest": DIGEST}
DATA_MOUNT: Json = {
    "kind": "Data",
    "name": "model",
    "mountPath": "/models/x",
    "data": {"source": {"kind": "Model", "id": "a4"}},
}


def make_runner(kind: str = "container", **fields: Any) -> Json:
    runner: Json = {"kind": kind, "resources": {"cpu": "100m", "memory": "256Mi"}, **fields}
    return runner if kind == "mock" else {"image": IMAGE, **runner}


def make_foreign_service(**fields: Any) -> Json:
    return {
        "id": "a2",
        "account": "acme",
        "name": "digits",
        "runner": make_runner(),
        "interface": {"endpoint": "predict", "outputSchema": SCHEMA},
        **fields,
    }


def make_resource(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": "dyff.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": spec,
    }


def make_evaluation(name: str = "evaluation-a1", **spec: Any) -> Json:
    base = {
        "id": "a1",
        "account": "acme",
        "dataset": "a3",
        "inferenceSession": {"replicas": 1, "inferenceService": make_foreign_service()},
        "storage": {"inputs": {"dataset": "datasets/a3"}, "output": "evaluations/a1"},
    }
    return make_resource("Evaluation", name, {**base, **spec})


def make_session(name: str = "inferencesession-a1", **spec: Any) -> Json:
    base = {"id": "a1", "account": "acme", "replicas": 1, "inferenceService": make_foreign_service()}
    return make_resource("InferenceSession", name, {**base, **spec})


def make_service(name: str = "inferenceservice-a2", **spec: Any) -> Json:
    return make_resource("InferenceService", name, {**make_foreign_service(), **spec})


def make_model(name: str = "model-a4", source: str = "Upload", **spec: Any) -> Json:
    base = {
        "id": "a4",
        "account": "acme",
        "name": "digits",
        "artifact": {"kind": "Volume", "volume": {"files": []}},
        "source": {"kind": source},
        "resources": {"storage": "1Mi"},
        "storage": {"inputs": {"source": "uploads/a4"}, "output": "models/a4"},
    }
    return make_resource("Model", name, {**base, **spec})


def make_data_source(name: str = "datasource-a9", **spec: Any) -> Json:
    base = {
        "id": "a9",
        "account": "acme",
        "name": "digits",
        "sourceKind": "huggingface",
        "source": "org/digits@main",
        "storage": {"inputs": {}, "output": "datasources/a9"},
    }
    return make_resource("DataSource", name, {**base, **spec})


def make_dataset(name: str = "dataset-a3", **spec: Any) -> Json:
    base = {
        "id": "a3",
        "account": "acme",
        "name": "digits",
        "artifacts": [{"kind": "parquet", "path": "data.parquet"}],
        "schema": SCHEMA,
        "dataSource": "a9",
        "storage": {"inputs": {"source": "datasources/a9"}, "output": "datasets/a3"},
    }
    return make_resource("Dataset", name, {**base, **spec})


def make_report(name: str = "report-a5", **spec: Any) -> Json:
    base = {
        "id": "a5",
        "account": "acme",
        "rubric": "classification.Classification",
        "evaluation": "a1",
        "dataset": "a3",
        "inferenceService": "a2",
        "storage": {
            "inputs": {"dataset": "datasets/a3", "evaluation": "evaluations/a1"},
            "output": "reports/a5",
        },
    }
    return make_resource("Report", name, {**base, **spec})


def make_method(**fields: Any) -> Json:
    return {
        "id": "aa",
        "account": "acme",
        "name": "counting",
        "scope": "InferenceService",
        "implementation": {
            "kind": "PythonFunction",
            "pythonFunction": {"fullyQualifiedName": "counting.count"},
        },
        "inputs": [{"keyword": "data", "kind": "Dataset"}],
        "output": {"kind": "SafetyCase", "safetyCase": {"name": "counts"}},
        "modules": ["ab"],
        **fields,
    }


def make_analysis(name: str = "safetycase-a0", **spec: Any) -> Json:
    base = {
        "id": "a0",
        "account": "acme",
        "scope": {"inferenceService": "a2"},
        "inputs": [{"keyword": "data", "entity": "a3"}],
        "method": make_method(),
        "storage": {
            "inputs": {"a3": "datasets/a3", "ab": "modules/ab"},
            "output": "safetycases/a0",
        },
    }
    return make_resource("Analysis", name, {**base, **spec})


def make_audit(name: str = "audit-a6", **spec: Any) -> Json:
    base = {
        "id": "a6",
        "account": "acme",
        "auditProcedure": "a7",
        "inferenceService": "a2",
        "storage": {
            "inputs": {"a5": "reports/a5", "baseline": "audits/a8"},
            "output": "audits/a6",
        },
    }
    return make_resource("Audit", name, {**base, **spec})
