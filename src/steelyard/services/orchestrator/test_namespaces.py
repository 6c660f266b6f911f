"""Objects of the namespace of an account, by the settings."""

import base64
import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from steelyard.services.orchestrator.namespaces import namespace_objects
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.settings import load
from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from steelyard_schema.names import account_namespace

RESTRICTED = "pod-security.kubernetes.io/enforce"


def objects(settings: OrchestratorSettings) -> dict[str, Json]:
    return {f"{obj['kind']} {obj['metadata']['name']}": obj for _, obj in namespace_objects("a", settings)}


def test_settings_say_which_labels_a_namespace_has_besides() -> None:
    settings = OrchestratorSettings(
        namespace_labels={RESTRICTED: "restricted", "app.kubernetes.io/managed-by": "others"}
    )
    labels = objects(settings)[f"Namespace {account_namespace('a')}"]["metadata"]["labels"]
    assert labels[RESTRICTED] == "restricted"
    assert labels["app.kubernetes.io/managed-by"] == "steelyard-orchestrator"


def test_settings_say_which_namespace_may_call_runners() -> None:
    labels = {"kubernetes.io/metadata.name": "here"}
    policy = objects(OrchestratorSettings(api_namespace=labels))["NetworkPolicy steelyard-runners"]
    [rule] = policy["spec"]["ingress"]
    assert {"matchLabels": labels} in [peer.get("namespaceSelector") for peer in rule["from"]]


def test_what_pods_may_call_is_bounded_only_where_the_settings_say_so() -> None:
    assert "NetworkPolicy steelyard-egress" not in objects(OrchestratorSettings())
    nothing = objects(OrchestratorSettings(egress=[]))["NetworkPolicy steelyard-egress"]["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Egress"], "egress": []}


def test_credentials_are_written_as_they_are() -> None:
    secret = objects(OrchestratorSettings(storage_credentials={"A": SecretStr("b")}))[
        "Secret steelyard-storage"
    ]
    assert base64.b64decode(secret["data"]["A"]) == b"b"


def test_secrets_that_open_registries_have_the_type_by_which_images_are_pulled() -> None:
    content = '{"auths": {"r.example": {"auth": "eDp5"}}}'
    secret = objects(OrchestratorSettings(pull_secrets={"registry": SecretStr(content)}))["Secret registry"]
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert base64.b64decode(secret["data"][".dockerconfigjson"]).decode() == content


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("steelyard-storage", '{"auths": {}}', "opens the storage"),
        ("Registry", '{"auths": {}}', "Registry"),
        ("registry", "x-secret", "JSON object with the key auths"),
        ("registry", '["x-secret"]', "JSON object with the key auths"),
        ("registry", '{"x-secret": {}}', "JSON object with the key auths"),
    ],
)
def test_a_secret_that_would_open_no_registry_is_refused_and_not_shown(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f"[orchestrator.pull_secrets]\n{name} = {json.dumps(content)}\n")
    with pytest.raises(UsageError, match=r"orchestrator\.pull_secrets\.") as raised:
        load(settings, tmp_path)
    assert words in str(raised.value)
    assert "x-secret" not in str(raised.value)
