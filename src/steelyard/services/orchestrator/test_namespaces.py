"""Objects of the namespace of an account, by the settings."""

import base64

from pydantic import SecretStr

from steelyard.services.orchestrator.namespaces import namespace_objects
from steelyard.services.orchestrator.settings import OrchestratorSettings
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
