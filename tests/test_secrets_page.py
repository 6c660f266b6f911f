"""docs/secrets.md: its Pod may run under Pod Security `restricted`, and can read its keys."""

import re

import pytest
import yaml

from steelyard.settings import Settings, find_field
from steelyard_common.types import Json
from tests.pod_security import can_read_secret, restricted_faults
from tests.source import ROOT

USER = 65532
"""User of our images."""


def pod_of_page() -> Json:
    """Return the Pod of the page, as `kubectl apply` reads it."""
    page = (ROOT / "docs" / "secrets.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    [pod] = [block for block in blocks if block.get("kind") == "Pod"]
    spec: Json = pod["spec"]
    return spec


def test_the_pod_keeps_to_the_restricted_standard_as_the_user_of_our_images() -> None:
    pod = pod_of_page()
    assert restricted_faults(pod) == []
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == USER


def test_the_pod_reads_the_keys_that_its_setting_names() -> None:
    pod = pod_of_page()
    [container] = pod["containers"]
    [variable] = container["env"]
    assert (
        find_field([variable["name"].removeprefix("STEELYARD_").lower()])
        is Settings.model_fields["secret_keys"]
    )
    [mount] = [
        mount for mount in container["volumeMounts"] if variable["value"].startswith(mount["mountPath"] + "/")
    ]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
    assert can_read_secret(pod, volume)


@pytest.mark.parametrize(
    ("context", "mode", "readable"),
    [
        ({}, 0o400, False),
        ({}, 0o440, False),
        ({}, None, True),
        ({"fsGroup": USER}, 0o440, True),
        ({"fsGroup": USER}, 0o400, False),
    ],
    ids=["root alone", "root's group", "everybody", "the Pod's group", "not the Pod's group"],
)
def test_files_of_secrets_are_roots(context: Json, mode: int | None, readable: bool) -> None:
    volume: Json = {"secret": {} if mode is None else {"defaultMode": mode}}
    assert can_read_secret({"securityContext": context}, volume) is readable


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"volumes": [{"name": "disk", "hostPath": {"path": "/"}}]}, "volumes: disk"),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, "check: runAsNonRoot"),
        ({"securityContext": {"runAsNonRoot": True}}, "check: seccompProfile"),
    ],
    ids=["the host's network", "a folder of the host", "no user", "no seccomp"],
)
def test_what_the_standard_refuses_is_named(change: Json, fault: str) -> None:
    assert restricted_faults(pod_of_page() | change) == [fault]
