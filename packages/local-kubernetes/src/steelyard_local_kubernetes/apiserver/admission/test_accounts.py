"""Pods get their account's token where neither says otherwise, and are refused without an account."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.admission.accounts import MOUNT, add_account
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.store import Store

CLAIMED = {"name": "kube-api-access-abcde", "readOnly": True, "mountPath": MOUNT}


@pytest.fixture
async def store() -> Store:
    return Store(None)


def account(store: Store, name: str = "default", **more: Any) -> None:
    metadata = {"name": name, "namespace": "ns", "uid": name, **more.pop("metadata", {})}
    store.put("serviceaccounts", {"metadata": metadata, **more})


def pod(*containers: Json, **spec: Any) -> Json:
    metadata = {"name": "p", "namespace": "ns"}
    return {"metadata": metadata, "spec": {"containers": list(containers or [{"name": "a"}]), **spec}}


def completed(store: Store, made: Json) -> Json:
    add_account(store, made, lambda: "abcde")
    spec: Json = made["spec"]
    return spec


async def test_every_container_without_a_token_of_its_own_gets_one(store: Store) -> None:
    account(store)
    own = {"name": "mine", "mountPath": MOUNT}
    spec = completed(
        store, pod({"name": "a"}, {"name": "b", "volumeMounts": [own]}, initContainers=[{"name": "i"}])
    )
    assert spec["containers"] == [
        {"name": "a", "volumeMounts": [CLAIMED]},
        {"name": "b", "volumeMounts": [own]},
    ]
    assert spec["initContainers"] == [{"name": "i", "volumeMounts": [CLAIMED]}]
    (volume,) = spec["volumes"]
    assert volume["name"] == "kube-api-access-abcde"
    assert [list(source) for source in volume["projected"]["sources"]] == [
        ["serviceAccountToken"],
        ["configMap"],
        ["downwardAPI"],
    ]


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [
        (None, None, True),
        (False, None, False),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
async def test_the_pod_says_before_its_account_whether_it_wants_a_token(
    store: Store, of_pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    given: dict[str, Any] = {} if of_account is None else {"automountServiceAccountToken": of_account}
    account(store, **given)
    wanted = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    assert ("volumes" in completed(store, pod(**wanted))) is mounted


async def test_a_pod_that_is_read_and_created_again_gets_no_second_volume(store: Store) -> None:
    account(store)
    spec = completed(store, pod())
    again = pod(volumes=spec["volumes"])
    again["spec"]["containers"] = [*spec["containers"], {"name": "new"}]
    assert completed(store, again)["volumes"] == spec["volumes"]
    assert again["spec"]["containers"][1]["volumeMounts"] == [CLAIMED]


async def test_pull_secrets_are_the_accounts_unless_the_pod_names_its_own(store: Store) -> None:
    account(store, imagePullSecrets=[{"name": "registry"}])
    assert completed(store, pod())["imagePullSecrets"] == [{"name": "registry"}]
    assert completed(store, pod(imagePullSecrets=[{"name": "own"}]))["imagePullSecrets"] == [{"name": "own"}]


async def test_a_pod_without_its_account_is_refused(store: Store) -> None:
    with pytest.raises(Refusal) as refused:
        completed(store, pod(serviceAccountName="robot"))
    text = 'error looking up service account ns/robot: serviceaccount "robot" not found'
    assert (refused.value.code, refused.value.message) == (403, f'pods "p" is forbidden: {text}')


async def test_an_account_may_bound_the_secrets_of_its_pods(store: Store) -> None:
    notes = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    account(store, metadata=notes, secrets=[{"name": "known"}])
    variable = {"name": "V", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}
    completed(store, pod(volumes=[{"name": "v", "secret": {"secretName": "known"}}]))
    for made in (
        pod(volumes=[{"name": "v", "secret": {"secretName": "other"}}]),
        pod({"name": "a", "env": [variable]}),
        pod(imagePullSecrets=[{"name": "other"}]),
    ):
        with pytest.raises(
            Refusal, match="is not allowed because service account default does not reference"
        ):
            completed(store, made)
