"""The ServiceAccount of a new Pod: it has to be there, and gives the Pod its token and its pull secrets.

The kubelet mounts the volume that is added here; `server.py` asks before a Pod's fields are completed.
"""

from collections.abc import Callable, Iterator

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_annotations
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.store import Store

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access-"
ENFORCED = "kubernetes.io/enforce-mountable-secrets"
_MIRROR = "kubernetes.io/config.mirror"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_SECONDS = 3607


def add_account(store: Store, pod: Json, suffix: Callable[[], str]) -> None:
    """Raises Refusal where the account is not there, or may not use a secret that the Pod names."""
    if _MIRROR in read_annotations(pod):
        return
    spec, metadata = pod.setdefault("spec", {}), pod["metadata"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    if faults := name_causes(name, "", "path"):
        said = " ".join(fault.message.rpartition(": ")[2] for fault in faults)
        text = f"error looking up service account {metadata['namespace']}/{name}: "
        text += f'invalid resource name "{name}": [{said}]'
        raise errors.forbidden_new("", "pods", pod, text)
    item = store.get("serviceaccounts", (metadata["namespace"], name))
    if item is None:
        text = f'error looking up service account {metadata["namespace"]}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden_new("", "pods", pod, text)
    account = item.parse()
    if _is_mounted(spec, account):
        _mount(spec, suffix)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [
            {"name": secret.get("name") or ""} for secret in account["imagePullSecrets"]
        ]
    if read_annotations(account).get(ENFORCED) in _TRUE and (text := _forbidden_secret(spec, account)):
        raise errors.forbidden_new("", "pods", pod, text)


def _is_mounted(spec: Json, account: Json) -> bool:
    for automount in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if automount is not None:
            return bool(automount)
    return True


def _mount(spec: Json, suffix: Callable[[], str]) -> None:
    present = next(
        (v["name"] for v in sequence(spec, "volumes") if str(v.get("name")).startswith(VOLUME)), None
    )
    name = present or VOLUME + suffix()
    mount = {"name": name, "readOnly": True, "mountPath": MOUNT}
    needed = False
    for container in (*sequence(spec, "initContainers"), *sequence(spec, "containers")):
        mounts = sequence(container, "volumeMounts")
        # A program that brings its own token keeps it.
        if all(other.get("mountPath") != MOUNT for other in mounts):
            container["volumeMounts"] = [*mounts, dict(mount)]
            needed = True
    if needed and present is None:
        spec["volumes"] = [*sequence(spec, "volumes"), {"name": name, "projected": _token_volume()}]


def _token_volume() -> Json:
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [field]}},
    ]
    return {"sources": sources, "defaultMode": 0o644}


def _forbidden_secret(spec: Json, account: Json) -> str:
    """Return why a Pod may not use a secret that its account does not reference; empty where it uses none."""
    name = account["metadata"]["name"]
    mountable = {secret.get("name") for secret in sequence(account, "secrets")}
    for volume in sequence(spec, "volumes"):
        secret = (volume.get("secret") or {}).get("secretName")
        if volume.get("secret") and secret not in mountable:
            text = f'volume with secret.secretName="{secret}"'
            return f"{text} is not allowed because service account {name} does not reference that secret"
    for field, word in (("initContainers", "init container"), ("containers", "container")):
        for container in sequence(spec, field):
            for where, secret in _secrets(container):
                if secret not in mountable:
                    text = f'{word} {container.get("name")} with {where} referencing secret.secretName="{secret}"'
                    return (
                        f"{text} is not allowed because service account {name} does not reference that secret"
                    )
    pulled = {secret.get("name") for secret in sequence(account, "imagePullSecrets")}
    for index, secret in enumerate(sequence(spec, "imagePullSecrets")):
        if secret.get("name") not in pulled:
            text = f'imagePullSecrets[{index}].name="{secret.get("name")}" is not allowed because service account'
            return f"{text} {name} does not reference that imagePullSecret"
    return ""


def _secrets(container: Json) -> Iterator[tuple[str, str]]:
    for variable in sequence(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            yield f"envVar {variable.get('name')}", reference.get("name") or ""
    for source in sequence(container, "envFrom"):
        if source.get("secretRef"):
            yield "envFrom", source["secretRef"].get("name") or ""
