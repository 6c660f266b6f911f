"""Manifests of workflows: complete, immutable, and allowed by their definitions."""

from typing import Any

import pytest

from steelyard.services.orchestrator.manifest import KUBE, Unresolvable, manifest
from steelyard.services.orchestrator.namespaces import label_value
from steelyard.services.simulation.entities import (
    ACCOUNT,
    MOUNT,
    make_all_kinds,
    make_audit,
    make_data_source,
    make_dataset,
    make_dataset_of_source,
    make_evaluation,
    make_measurement,
    make_method_fields,
    make_model,
    make_report,
    make_runner,
    make_safety_case,
    make_service,
    make_service_fields,
    make_session,
)
from steelyard_schema.base import Annotation, DyffEntity
from steelyard_schema.data_source import pattern_notes
from steelyard_schema.dependencies import dependencies
from steelyard_schema.names import account_namespace
from steelyard_schema.resources import RESOURCES

HOSTED = make_service_fields(
    runner={
        "kind": "container",
        "image": {"host": "localhost", "name": "steelyard/runner-hosted", "digest": "sha256:" + "0" * 64},
        "resources": {},
        "args": ["--base-url", "https://models.example/v1", "--model", "m"],
    }
)
MOUNTED = make_service_fields(runner=make_runner(volumeMounts=[MOUNT]))
NOTEBOOK = make_method_fields(
    implementation={
        "kind": "JupyterNotebook",
        "jupyterNotebook": {"notebookModule": "x2", "notebookPath": "a.ipynb"},
    },
    inputs=[
        {"keyword": "data", "kind": "Evaluation"},
        {"keyword": "again", "kind": "Evaluation"},
        {"keyword": "earlier", "kind": "Measurement"},
        {"keyword": "report", "kind": "Report"},
    ],
)
"""A method by a notebook, whose module is not among the others."""
OF_MANY = [
    {"keyword": keyword, "entity": id}
    for keyword, id in (("data", "e1"), ("again", "e1"), ("earlier", "n0"), ("report", "r1"))
]
OF_NOTEBOOK = {
    "e1": "evaluations/e1",
    "n0": "measurements/n0",
    "r1": "reports/r1",
    "x1": "modules/x1",
    "x2": "modules/x2",
}
SCRATCH = {"kind": "Scratch", "name": "tmp", "mountPath": "/scratch", "scratch": {"capacity": "1Gi"}}


@pytest.mark.parametrize("entity", make_all_kinds(), ids=lambda entity: type(entity).__name__)
def test_each_manifest_is_one_that_the_definition_of_its_kind_allows(entity: DyffEntity) -> None:
    made = manifest(entity, secret="steelyard-storage")
    spec = RESOURCES[made["kind"]].spec.parse(made["spec"])
    assert spec.id == entity.id
    assert spec.account == ACCOUNT
    kind = type(entity).__name__
    assert made["metadata"] == {
        "name": f"{kind.lower()}-{entity.id}",
        "namespace": f"acct-{ACCOUNT}-3ba3f5f4",
        "labels": {"dyff.io/entity": entity.id, "dyff.io/kind": kind, "dyff.io/account": ACCOUNT},
    }
    assert made["spec"]["storage"]["secret"] == "steelyard-storage"
    assert (KUBE[kind].api_version, KUBE[kind].kind) == (made["apiVersion"], made["kind"])
    assert (made["kind"] == kind) == (kind not in {"Measurement", "SafetyCase"})


@pytest.mark.parametrize("entity", make_all_kinds(), ids=lambda entity: type(entity).__name__)
def test_nothing_that_may_change_stands_in_a_manifest(entity: DyffEntity) -> None:
    later = entity.model_copy(update={"status": "Complete", "reason": "x", "labels": {"a": "b"}})
    assert manifest(later) == manifest(entity)


@pytest.mark.parametrize(
    ("entity", "inputs", "output"),
    [
        pytest.param(make_evaluation(), {"dataset": "datasets/d1"}, "evaluations/e1", id="evaluation"),
        pytest.param(make_data_source(), {}, "datasources/c1", id="data source"),
        pytest.param(
            make_dataset_of_source(),
            {"source": "datasources/c1"},
            "datasets/d2",
            id="dataset of a data source",
        ),
        pytest.param(
            make_evaluation(inferenceSession={"inferenceService": MOUNTED}),
            {"dataset": "datasets/d1", "model": "models/m1"},
            "evaluations/e1",
            id="evaluation with a mount",
        ),
        pytest.param(
            make_evaluation(inferenceSession={"inferenceService": HOSTED}),
            {"dataset": "datasets/d1", "spending": f"inferenceservices/{HOSTED['id']}"},
            "evaluations/e1",
            id="evaluation of a hosted model",
        ),
        pytest.param(
            make_session(inferenceService=HOSTED),
            {"spending": f"inferenceservices/{HOSTED['id']}"},
            None,
            id="session of a hosted model",
        ),
        pytest.param(
            make_evaluation(inferenceSession={"inferenceService": MOUNTED}, inferenceSessionReference="i1"),
            {"dataset": "datasets/d1"},
            "evaluations/e1",
            id="evaluation of a session that has its files already",
        ),
        pytest.param(
            make_session(
                inferenceService=make_service_fields(runner=make_runner(volumeMounts=[SCRATCH, MOUNT]))
            ),
            {"model": "models/m1"},
            None,
            id="session with a mount and scratch space",
        ),
        pytest.param(make_service(), {}, None, id="service"),
        pytest.param(make_model(), {}, "models/m1", id="model from elsewhere"),
        pytest.param(
            make_model(source={"kind": "Upload"}), {"source": "uploads/m1"}, "models/m1", id="uploaded model"
        ),
        pytest.param(
            make_report(modules=["x1", "x2"]),
            {
                "dataset": "datasets/d1",
                "evaluation": "evaluations/e1",
                "x1": "modules/x1",
                "x2": "modules/x2",
            },
            "reports/r1",
            id="report with modules",
        ),
        pytest.param(
            make_audit(
                metadata={
                    "preconditions": [{"kind": "Report", "id": "r1"}, {"kind": "Evaluation", "id": "e1"}]
                },
                annotations=[{"key": "steelyard/baseline", "value": "u0"}],
            ),
            {"r1": "reports/r1", "baseline": "audits/u0"},
            "audits/u1",
            id="audit with a baseline",
        ),
        pytest.param(
            make_safety_case(),
            {"d1": "datasets/d1", "x1": "modules/x1"},
            "safetycases/f1",
            id="safety case",
        ),
        pytest.param(
            make_measurement(method=NOTEBOOK, inputs=OF_MANY), OF_NOTEBOOK, "measurements/n1", id="notebook"
        ),
    ],
)
def test_a_manifest_says_where_everything_lies(
    entity: DyffEntity, inputs: dict[str, str], output: str | None
) -> None:
    storage = manifest(entity)["spec"]["storage"]
    assert storage["inputs"] == inputs
    assert storage.get("output") == output
    assert "secret" not in storage


def test_a_mock_needs_no_image_of_its_own() -> None:
    runner = make_runner(kind="mock", image=None, imageRef={"kind": "OCIArtifact", "id": "o1"})
    assert manifest(make_service(runner=runner))["spec"]["runner"]["kind"] == "mock"


IMAGE = {"host": "registry.example.com:5000", "name": "artifacts/o1", "digest": f"sha256:{'a' * 64}"}
NOTE = {"key": "steelyard/image", "value": f"registry.example.com:5000/artifacts/o1@sha256:{'a' * 64}"}
OF_ARTIFACT = make_service_fields(
    runner=make_runner(image=None, imageRef={"kind": "OCIArtifact", "id": "o1"})
)


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (make_service(runner=OF_ARTIFACT["runner"], annotations=[NOTE]), ()),
        (make_session(inferenceService=OF_ARTIFACT, annotations=[NOTE]), ("inferenceService",)),
        (
            make_evaluation(inferenceSession={"inferenceService": OF_ARTIFACT}, annotations=[NOTE]),
            ("inferenceSession", "inferenceService"),
        ),
    ],
    ids=["a service", "a session", "an evaluation"],
)
def test_an_artifact_is_named_by_registry_repository_and_digest(
    entity: DyffEntity, path: tuple[str, ...]
) -> None:
    spec = manifest(entity)["spec"]
    for name in path:
        spec = spec[name]
    assert spec["runner"]["image"] == IMAGE
    assert "imageRef" not in spec["runner"]


def test_a_models_medium_stands_beside_its_places() -> None:
    made = manifest(make_model(storage={"medium": "ObjectStorage"}))
    assert made["spec"]["storage"] == {"inputs": {}, "output": "models/m1", "medium": "ObjectStorage"}


def _mount(**changes: Any) -> dict[str, Any]:
    return make_service_fields(runner=make_runner(volumeMounts=[{**MOUNT, **changes}]))


@pytest.mark.parametrize(
    ("entity", "reason", "words"),
    [
        pytest.param(
            make_service(runner=make_runner(image=None, imageRef={"kind": "OCIArtifact", "id": "o1"})),
            "BadImage",
            "runner.imageRef: the image of OCIArtifact o1 is not known",
            id="an image of the platform",
        ),
        pytest.param(
            make_session(inferenceService=_mount(data={"source": {"kind": "Report", "id": "r1"}})),
            "BadRequest",
            "inferenceService.runner.volumeMounts.model: a Report cannot be mounted",
            id="a mount of a report",
        ),
        pytest.param(
            make_evaluation(inferenceSession={"inferenceService": _mount(name="dataset")}),
            "BadRequest",
            "the name 'dataset' is the evaluation's own",
            id="a mount named dataset",
        ),
        pytest.param(
            make_session(
                inferenceService=make_service_fields(
                    runner=make_runner(volumeMounts=[MOUNT, {**MOUNT, "mountPath": "/b"}])
                )
            ),
            "BadRequest",
            "two mounts have this name",
            id="two mounts of one name",
        ),
        pytest.param(
            make_safety_case(inputs=[{"keyword": "x", "entity": "d1"}]),
            "BadRequest",
            "inputs.0.keyword: 'x' is not an input of the method",
            id="an input that the method does not have",
        ),
    ],
)
def test_what_can_never_run_is_refused_with_the_field(entity: DyffEntity, reason: str, words: str) -> None:
    with pytest.raises(Unresolvable, match=words) as refusal:
        manifest(entity)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        pytest.param(make_model(), "", id="model"),
        pytest.param(make_service(), "", id="service without a model"),
        pytest.param(
            make_service(model={"id": "m1", "account": "a", "name": "m", "artifact": {"kind": "Mock"}}),
            "Model/m1",
            id="service",
        ),
        pytest.param(make_session(), "InferenceService/s1", id="session"),
        pytest.param(make_session(inferenceService=MOUNTED), "InferenceService/s1 Model/m1", id="mounts"),
        pytest.param(make_evaluation(), "Dataset/d1 InferenceService/s1", id="evaluation"),
        pytest.param(
            make_evaluation(inferenceSessionReference="i1"),
            "Dataset/d1 InferenceService/s1",
            id="a session that is referred to is no dependency",
        ),
        pytest.param(make_report(modules=["x1"]), "Evaluation/e1 Module/x1", id="report"),
        pytest.param(
            make_audit(
                metadata={"preconditions": [{"kind": "Report", "id": "r1"}, {"kind": "Report", "id": "r1"}]},
                annotations=[{"key": "steelyard/baseline", "value": "u0"}],
            ),
            "AuditProcedure/p1 InferenceService/s1 Audit/u0 Report/r1",
            id="audit, its baseline and its reports, each once",
        ),
        pytest.param(make_safety_case(), "Method/t1 Dataset/d1 Module/x1", id="safety case"),
        pytest.param(
            make_measurement(method=NOTEBOOK, inputs=OF_MANY),
            "Method/t1 Evaluation/e1 Measurement/n0 Report/r1 Module/x1 Module/x2",
            id="measurement by a notebook",
        ),
    ],
)
def test_what_an_entity_depends_on(entity: DyffEntity, expected: str) -> None:
    assert " ".join(f"{dependency.kind}/{dependency.id}" for dependency in dependencies(entity)) == expected


@pytest.mark.parametrize(
    ("account", "namespace"),
    [
        ("Acme", "acct-acme-"),
        ("a" * 50, f"acct-{'a' * 40}-"),
        ("Über Team / 1", "acct-ber-team-1-"),
        ("日本", "acct-"),
        ("x" * 39 + "--y", f"acct-{'x' * 39}-"),
    ],
)
def test_a_namespace_is_named_after_its_account(account: str, namespace: str) -> None:
    name = account_namespace(account)
    assert name.startswith(namespace)
    assert len(name) == len(namespace) + 8
    assert len(name) <= 63


def test_accounts_with_similar_names_have_namespaces_of_their_own() -> None:
    assert len({account_namespace(account) for account in ("acme", "Acme", "ACME", "acme-", "a c m e")}) == 5


def test_a_label_that_cannot_hold_the_account_holds_a_name_for_it() -> None:
    assert label_value("acme_1.x") == "acme_1.x"
    assert label_value("a c") == account_namespace("a c").removeprefix("acct-")


def test_the_files_that_are_chosen_stand_in_the_manifest() -> None:
    chosen = pattern_notes(["data/*.csv", "more/"])
    source = make_data_source(annotations=chosen)
    dataset = make_dataset_of_source()
    with_files = dataset.model_copy(
        update={"annotations": [*dataset.annotations, *map(Annotation.parse, chosen)]}
    )
    assert manifest(source)["spec"]["files"] == ["data/*.csv", "more/"]
    assert manifest(with_files)["spec"]["files"] == ["data/*.csv", "more/"]
    assert manifest(with_files)["spec"]["dataSource"] == "c1"
    assert "files" not in manifest(dataset)["spec"]


def test_a_dataset_that_names_no_source_is_never_made() -> None:
    with pytest.raises(Unresolvable) as caught:
        manifest(make_dataset())
    assert caught.value.reason == "DataSourceMissing"
