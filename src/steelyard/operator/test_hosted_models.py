"""A session of a hosted model: a program of the platform asks the provider, and it alone gets the key."""

import json
from typing import Any

from steelyard.operator.runners import runner_fault
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import DIGEST, make_foreign_service, make_session
from steelyard_common.types import Json
from steelyard_schema.egress import EgressPolicy, EgressSettings
from steelyard_schema.steps import StepConfig

SETTINGS = OperatorSettings(storage="s3://bucket/steelyard")
HOSTED = {
    "kind": "container",
    "image": {"host": "localhost", "name": "steelyard/runner-hosted", "digest": DIGEST},
    "resources": {},
    "args": ["--base-url", "https://models.example/v1", "--model", "large", "--tokens-total", "500"],
}


def hosted_session(**fields: Any) -> Json:
    storage = {"inputs": {"spending": "inferenceservices/a2"}, "secret": "steelyard-storage"}
    return make_session(inferenceService=make_foreign_service(runner=HOSTED), storage=storage, **fields)


def test_a_hosted_model_is_asked_by_a_program_of_ours() -> None:
    settings = OperatorSettings(
        storage="s3://bucket/steelyard", egress=EgressSettings(services=("models.example",))
    )
    config_map, _, deployment = session_objects(hosted_session(secrets={"provider": "s-provider"}), settings)
    config = StepConfig.model_validate_json(config_map["data"]["config.json"])
    assert config.spec["storage"]["inputs"]["spending"] == "s3://bucket/steelyard/inferenceservices/a2"
    assert config.egress == EgressPolicy(hosts=("models.example",), setting="egress.services")
    pod = deployment["spec"]["template"]["spec"]
    runner, identity = pod["containers"]
    assert (runner["image"], runner["command"]) == (
        settings.images.steps,
        ["python", "-m", "steelyard.steps.hosted_model"],
    )
    # What the service says reaches the program by its configuration alone: arguments would be the user's.
    assert runner["args"] == [
        *("--config", "/etc/steelyard/config.json"),
        *("--host", "$(POD_IP)", "--port", "8000"),
    ]
    assert runner["envFrom"] == [{"secretRef": {"name": "steelyard-storage"}}]
    assert "envFrom" not in identity
    mounts = {mount["name"] for mount in runner["volumeMounts"]}
    assert mounts == {"config", "tmp", "secrets"}
    assert "secrets" not in json.dumps(identity)
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
    (source,) = volume["projected"]["sources"]
    assert source["secret"] == {"name": "s-provider", "items": [{"key": "value", "path": "provider"}]}


def test_no_other_runner_gets_the_providers_key() -> None:
    session = make_session(secrets={"provider": "s-provider"})
    assert "s-provider" not in json.dumps(session_objects(session, SETTINGS)[2])


def test_a_hosted_model_without_a_key_has_no_volume_for_it() -> None:
    assert "secrets" not in json.dumps(session_objects(hosted_session(), SETTINGS)[2]["spec"]["template"])


def test_a_hosted_model_that_is_wrong_is_a_fault_of_its_service() -> None:
    assert runner_fault(make_foreign_service(runner=HOSTED)) is None
    fault = runner_fault(make_foreign_service(runner={**HOSTED, "args": ["--model", "large"]}))
    assert fault
    assert (fault.reason, fault.message) == ("BadRequest", "runner.args: --base-url: is missing")
    other = runner_fault(make_foreign_service(runner={**HOSTED, "command": ["sh"]}))
    assert other
    assert other.message.startswith("runner.command: a hosted model has none")
