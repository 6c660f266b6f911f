"""The published dyff-client, unmodified: dataset, module, model, service, session, evaluation, report."""

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.demo.digits import make
from steelyard.client import presets
from steelyard.local.state import read_ready
from tests.integration.conftest import Machine

pytestmark = pytest.mark.e2e
ACCOUNT = "test"


def until(look: Callable[[], Any], wanted: set[str], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while (entity := look()).status not in wanted:
        assert entity.status not in {"Failed", "Error"}, f"{entity.reason}: {entity.message}"
        assert time.monotonic() < end, f"{entity.kind} is {entity.status} {entity.reason} {entity.message}"
        time.sleep(0.2)
    return entity


@pytest.fixture
def forgiving() -> Iterator[None]:
    """The published client leaves its sockets open: they are closed here, without a word."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def ask_the_mock(api: Any) -> dict[str, Any]:
    """Asks a mock as the published examples write it: its image, its path below /openai, its pipelines."""
    from dyff.schema import platform
    from dyff.schema.requests import InferenceServiceCreateRequest, InferenceSessionCreateRequest

    runner = platform.InferenceServiceRunner(
        kind=platform.InferenceServiceRunnerKind.MOCK,
        resources=platform.ModelResources(storage="1Gi", memory="2Gi"),
        image=platform.ContainerImageSource(
            host="registry.gitlab.com",
            name="dyff/workflows/inferenceservice-mock",
            digest="sha256:f7becd37affa559a60e7ef2d3a0b1e4766e6cd6438cef701d58d2653767e7e54",
            tag="0.2.1",
        ),
    )
    interface = platform.InferenceInterface(
        endpoint="openai/v1/completions",
        outputSchema=platform.DataSchema(arrowSchema=presets.classification().outputSchema.arrowSchema),
        inputPipeline=[platform.SchemaAdapter(kind="TransformJSON", configuration={"prompt": "$.text"})],
        outputPipeline=[
            platform.SchemaAdapter(kind="ExplodeCollections", configuration={"collections": ["choices"]}),
            platform.SchemaAdapter(kind="TransformJSON", configuration={"text": "$.choices.text"}),
        ],
    )
    request = InferenceServiceCreateRequest(account=ACCOUNT, name="mock", runner=runner, interface=interface)
    service = api.inferenceservices.create(request)
    until(lambda: api.inferenceservices.get(service.id), {"Ready"})
    made = api.inferencesessions.create(
        InferenceSessionCreateRequest(account=ACCOUNT, inferenceService=service.id, useSpotPods=False)
    )
    session = made.inferencesession
    end = time.monotonic() + 60
    while not api.inferencesessions.ready(session.id):
        assert time.monotonic() < end, "the session is not ready"
        time.sleep(0.2)
    client = api.inferencesessions.client(session.id, made.token, interface=interface)
    answers: list[dict[str, Any]] = client.infer({"text": "How heavy?"})
    api.inferencesessions.terminate(session.id)
    return answers[0]


@pytest.mark.usefixtures("forgiving")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_published_client_does_it_all(machine: Machine, tmp_path: Path) -> None:
    from dyff.client import Client
    from dyff.schema.platform import (
        DataSchema,
        InferenceInterface,
        InferenceServiceRunner,
        ModelResources,
        SchemaAdapter,
    )
    from dyff.schema.requests import (
        EvaluationCreateRequest,
        EvaluationInferenceSessionRequest,
        InferenceServiceCreateRequest,
        InferenceSessionCreateRequest,
        ReportCreateRequest,
    )

    machine.up()
    ready = read_ready(machine.state)
    assert ready is not None
    api = Client(api_token=ready.token, endpoint=ready.api)
    digits = make(tmp_path / "digits")

    dataset = api.datasets.create_arrow_dataset(str(digits.dataset), account=ACCOUNT, name="digits")
    api.datasets.upload_arrow_dataset(dataset, str(digits.dataset))
    until(lambda: api.datasets.get(dataset.id), {"Ready"})

    package = tmp_path / "package"
    package.mkdir()
    (package / "mine.py").write_text("ANSWER = 42\n")
    module = api.modules.create_package(str(package), account=ACCOUNT, name="mine")
    api.modules.upload_package(module, str(package))
    until(lambda: api.modules.get(module.id), {"Ready"})

    model = api.models.create_from_volume(
        str(digits.models[1].folder),
        account=ACCOUNT,
        name="digits",
        resources=ModelResources(storage="1Mi", memory="1Mi"),
    )
    api.models.upload_volume(model, str(digits.models[1].folder))
    until(lambda: api.models.get(model.id), {"Ready"})

    service = api.inferenceservices.create(
        InferenceServiceCreateRequest(
            account=ACCOUNT,
            name="digits",
            model=model.id,
            runner=InferenceServiceRunner.model_validate(presets.onnx_classifier(model.id).dump()),
            interface=InferenceInterface(
                endpoint="predict",
                outputSchema=DataSchema(arrowSchema=presets.classification().outputSchema.arrowSchema),
                inputPipeline=[SchemaAdapter(kind="Select", configuration={"fields": ["image"]})],
            ),
        )
    )
    until(lambda: api.inferenceservices.get(service.id), {"Ready"})

    made = api.inferencesessions.create(
        InferenceSessionCreateRequest(account=ACCOUNT, inferenceService=service.id, useSpotPods=False)
    )
    session, token = made.inferencesession, made.token
    end = time.monotonic() + 60
    while not api.inferencesessions.ready(session.id):
        assert time.monotonic() < end, "the session is not ready"
        time.sleep(0.2)
    interface = session.inferenceService.interface
    answered = api.inferencesessions.client(session.id, token, interface=interface).infer(
        {"image": [0.0] * 64}
    )
    assert "label" in answered[0]
    assert api.inferencesessions.terminate(session.id).status == "Terminated"
    assert ask_the_mock(api)["text"]

    evaluation = api.evaluations.create(
        EvaluationCreateRequest(
            account=ACCOUNT,
            dataset=dataset.id,
            replications=1,
            inferenceSession=EvaluationInferenceSessionRequest(
                inferenceService=service.id, useSpotPods=False
            ),
        )
    )
    until(lambda: api.evaluations.get(evaluation.id), {"Complete"}, 90)
    api.evaluations.download(evaluation.id, str(tmp_path / "outputs"))
    assert list((tmp_path / "outputs").glob("*.parquet"))

    report = api.reports.create(
        ReportCreateRequest(account=ACCOUNT, rubric="classification.Classification", evaluation=evaluation.id)
    )
    until(lambda: api.reports.get(report.id), {"Complete"})
    api.reports.download(report.id, str(tmp_path / "report"))
    assert (tmp_path / "report" / "report.html").exists()
    api.reports.label(report.id, {"seen": "yes"})
    assert [report.id for report in api.reports.query(labels={"seen": "yes"})] == [report.id]
    assert api.reports.delete(report.id).status == "Deleted"
