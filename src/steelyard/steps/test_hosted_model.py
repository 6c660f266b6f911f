"""The runner of a hosted model: its configuration, and that it calls no address that is not allowed."""

from pathlib import Path
from typing import Any

import pytest

from steelyard.egress.aiohttp_connector import make_guarded_session
from steelyard.steps.common import StepFailed
from steelyard.steps.hosted_model import application
from steelyard_evaluation.hosted.doubles import FakeProvider
from steelyard_evaluation.hosted.test_proxy import serving
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.hosted_model import HostedModel
from steelyard_schema.resources import InferenceSessionResourceSpec
from steelyard_schema.steps import ResourceRef, StepConfig

INTERFACE = {"endpoint": "v1/chat/completions", "outputSchema": {"arrowSchema": "AAAA"}}


def configuration(
    url: str, folder: Path | None, arguments: list[str] | None = None, **limits: Any
) -> StepConfig:
    given = {"max_output_tokens": 50, "queue_seconds": 5, **limits}
    model = HostedModel(base_url=url, model="large", **given)
    service = {
        "id": "a2",
        "account": "acme",
        "name": "large",
        "interface": INTERFACE,
        "runner": {
            "kind": "container",
            "image": {"host": "localhost", "name": "steelyard/runner-hosted", "digest": "sha256:" + "0" * 64},
            "resources": {},
            "args": model.arguments() if arguments is None else arguments,
        },
    }
    inputs = {"spending": folder.as_uri()} if folder else {}
    spec = {"id": "a1", "account": "acme", "inferenceService": service, "storage": {"inputs": inputs}}
    return StepConfig(
        step="hosted_model",
        attempt=1,
        epoch="1",
        resource=ResourceRef(kind="InferenceSession", namespace="acme", name="s", uid="u"),
        spec=InferenceSessionResourceSpec.parse(spec).dump(),
        egress={"hosts": ["http://127.0.0.1"], "networks": ["127.0.0.0/8"]},
    )


@pytest.mark.parametrize(
    ("arguments", "folder", "fault"),
    [
        (["--model", "m"], True, "spec.inferenceService.runner.args: --base-url: is missing"),
        (None, False, "spec.storage.inputs.spending: is missing, and the spending of this service has a cap"),
    ],
    ids=["no address", "no place for the ledger"],
)
def test_a_wrong_configuration_is_named(
    tmp_path: Path, arguments: list[str] | None, folder: bool, fault: str
) -> None:
    place = tmp_path if folder else None
    with pytest.raises(StepFailed, match=fault) as error:
        application(configuration("http://127.0.0.1:1/v1", place, arguments, tokens_total=5))
    assert error.value.permanent


async def test_an_address_that_is_not_allowed_is_not_called() -> None:
    provider, policy = FakeProvider(), EgressPolicy(setting="egress.services")
    async with serving(
        provider, open_session=lambda: make_guarded_session(policy), tokens_total=10_000
    ) as setting:
        status, answer, _ = await setting.ask()
        assert (status, answer["error"]["code"]) == (424, "ProviderRefused")
        assert "egress.services" in answer["error"]["message"]
        assert (await setting.spent()).calls == 0
    assert provider.bodies == []
