"""Tokens of ServiceAccounts in Pods: the automatic volume, tokens of projected volumes, and their renewal.

A token is renewed when four fifths of its time are over. When that is stands in the token itself, so that a kubelet
that starts again renews the tokens of its predecessor's Pods.
"""

import base64
import binascii
import json
import os
from contextlib import suppress
from dataclasses import replace

from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import NotFound
from steelyard_kube.pods import list_containers
from steelyard_kube.resource import SERVICE_ACCOUNTS, Resource
from steelyard_local_kubernetes.kubelet import versions, volumes
from steelyard_local_kubernetes.kubelet.records import PodFolder

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access"
ROOT_CA = "kube-root-ca.crt"
RENEWAL = 0.8  # of a token's time
RETRY_SECONDS = 10.0
_SECONDS = 3607  # Kubernetes' own number for automatic tokens


def automatic_volume() -> Json:
    """Return the volume that Kubernetes adds to Pods: token, certificate of the authority, and namespace."""
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _SECONDS}},
        # Without an authority there is nothing to trust, but the Pod starts.
        {"configMap": {"name": ROOT_CA, "optional": True, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [field]}},
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}


async def with_account(cluster: Cluster, pod: Json) -> Json:
    """Return the Pod with the automatic volume, where it and its account want one and it names none itself."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    wanted, name = spec.get("automountServiceAccountToken"), spec.get("serviceAccountName")
    if wanted is False or not name:
        return pod
    try:
        account = await cluster.get(SERVICE_ACCOUNTS, name, namespace)
    except NotFound:
        return pod
    if wanted is None and account.get("automountServiceAccountToken") is False:
        return pod
    return mount_token(pod)


def mount_token(pod: Json) -> Json:
    """Return the Pod with the automatic volume in each container that mounts nothing at its place."""
    mount = {"name": VOLUME, "mountPath": MOUNT, "readOnly": True}

    def add_mount(container: Json) -> Json:
        mounts = sequence(container, "volumeMounts")
        if any(os.path.normpath(present["mountPath"]) == MOUNT for present in mounts):
            return container
        return {**container, "volumeMounts": [*mounts, mount]}

    spec = dict(pod["spec"])
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [add_mount(container) for container in spec[kind]]
    if not any(sequence(container, "volumeMounts")[-1:] == [mount] for container in list_containers(spec)):
        return pod  # as the API server of a cluster has written it already
    return {**pod, "spec": {**spec, "volumes": [*sequence(spec, "volumes"), automatic_volume()]}}


async def issue(cluster: Cluster, pod: Json, source: Json) -> str:
    """Return a new token for one source of a projected volume; NotFound where the account is gone."""
    metadata = pod["metadata"]
    account = pod["spec"].get("serviceAccountName") or "default"
    requests = Resource("", "v1", f"serviceaccounts/{account}/token", "TokenRequest")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    spec: Json = {"expirationSeconds": source.get("expirationSeconds") or 3600, "boundObjectRef": bound}
    if audience := source.get("audience"):
        spec["audiences"] = [audience]
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"namespace": metadata["namespace"]},
        "spec": spec,
    }
    answer = await cluster.create(requests, wanted)
    token: str = answer["status"]["token"]
    return token


def renewal_time(token: str) -> float:
    """Return when a token is to be renewed, in seconds since the epoch; 0 for any other text."""
    try:
        content = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
        return float(claims["iat"] + RENEWAL * (claims["exp"] - claims["iat"]))
    except (LookupError, ValueError, TypeError, binascii.Error):
        return 0.0


async def renew(cluster: Cluster, pod: Json, folder: PodFolder, now: float) -> float | None:
    """Write new tokens over those whose time comes; seconds until the next one, None for a Pod without tokens."""
    waits = []
    for volume, source in volumes.token_sources(pod):
        path = (place := folder.volume(pod, volume["name"])) / source["path"]
        try:
            due = renewal_time(path.read_text())
        except FileNotFoundError:
            continue
        if due <= now:
            with suppress(NotFound):
                token = await issue(cluster, pod, source)
                files = versions.read(place)
                files[source["path"]] = replace(files[source["path"]], data=token.encode())
                versions.write(place, files)
                due = renewal_time(token)
        waits.append(max(due - now, RETRY_SECONDS))
    return min(waits, default=None)
