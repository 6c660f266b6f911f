"""Decisions about a cluster's certificates: the files for its Pods, and which requests of clients are answered.

A client asks by an annotation of the RayCluster, `request.certificates.steelyard/ID`, with a certificate request of its
own key; the answer is the annotation `certificates.steelyard/ID`. So the API itself decides who may have one: those who
may change the cluster, and thereby run programs in it.
"""

import base64
from collections.abc import Iterable
from datetime import datetime, timedelta

from steelyard.operator.ray.certificates.authorities import (
    SERVICE,
    PlatformKey,
    clients,
    issue,
    nodes,
    read_issue_time,
    read_request_key,
)
from steelyard.operator.ray.owned import Platform, has_certificates, make_owned
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_kube.times import parse_time
from steelyard_schema.ray_annotations import ANSWER, REFUSED, REQUEST

KEPT = timedelta(hours=1)
"""Time that an answer stays if the client does not remove it."""
_CODEFLARE = "ray.openshift.ai/cluster-name"


def trust_name(cluster: Json) -> str:
    """Return the name of the ConfigMap with the authorities of the operator's service."""
    return f"{cluster['metadata']['name']}-steelyard-ca"


def node_bundle(key: PlatformKey, cluster: Json, now: datetime) -> str:
    """Return the authorities that a cluster's Pods trust: those of its Pods and of its clients, of no other cluster."""
    uid = cluster["metadata"]["uid"]
    return key.bundle(now, nodes(uid), clients(uid))


def certificate_objects(cluster: Json, settings: RaySettings, platform: Platform) -> list[Json]:
    key = platform.key
    if key is None or not has_certificates(cluster):
        return []
    trust = {"data": {"ca.crt": key.bundle(platform.now, SERVICE)}}
    objects = [make_owned(cluster, "v1", "ConfigMap", trust_name(cluster), trust)]
    if settings.client_authorities:
        objects.append(_client_authority(cluster, key, platform.now))
    return objects


def _client_authority(cluster: Json, key: PlatformKey, now: datetime) -> Json:
    """Return the Secret that codeflare-sdk reads.

    It takes the first certificate for the issuer of what it signs, and the whole text for what it trusts.
    """
    name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
    authority = key.authority(clients(uid), now)
    texts = {"ca.crt": authority.pem + key.bundle(now, nodes(uid)), "ca.key": authority.key_pem}
    data = {field: base64.b64encode(text.encode()).decode() for field, text in texts.items()}
    secret = make_owned(
        cluster, "v1", "Secret", f"{name}-ca-secret-steelyard", {"type": "Opaque", "data": data}
    )
    secret["metadata"]["labels"][_CODEFLARE] = name
    return secret


def certificate_changes(cluster: Json, settings: RaySettings, platform: Platform) -> Json:
    """Return the annotations that answer requests, and None for those that are no longer needed."""
    annotations = read_annotations(cluster)
    requests = {name.removeprefix(REQUEST) for name in annotations if name.startswith(REQUEST)}
    answers = {name.removeprefix(ANSWER) for name in annotations if name.startswith(ANSWER)}
    changes: Json = {ANSWER + identifier: None for identifier in answers - requests}
    for identifier in sorted(requests):
        answer = annotations.get(ANSWER + identifier)
        if answer is None:
            changes[ANSWER + identifier] = _answer(
                cluster, annotations[REQUEST + identifier], settings, platform
            )
        elif _is_old(answer, platform.now):
            changes |= {REQUEST + identifier: None, ANSWER + identifier: None}
    return changes


def _answer(cluster: Json, request: str, settings: RaySettings, platform: Platform) -> str:
    key, metadata = platform.key, cluster["metadata"]
    if key is None or not has_certificates(cluster):
        return f"{REFUSED}the cluster has no certificates"
    try:
        public = read_request_key(request)
    except ValueError as error:
        return f"{REFUSED}{error}"
    authority = key.authority(clients(metadata["uid"]), platform.now)
    end = platform.now + timedelta(days=settings.client_days)
    name = f"client of {metadata['namespace']}/{metadata['name']}"
    certificate = issue(authority, public, name, (), platform.now, "client", end=end)
    # A client trusts the Pods' authorities alone, so that no other client can pass for a Pod.
    return certificate + key.bundle(platform.now, nodes(metadata["uid"]))


def _is_old(answer: str, now: datetime) -> bool:
    try:
        return read_issue_time(answer) + KEPT < now
    except ValueError:
        return False  # a refusal stays until the request goes


def ending(pods: Iterable[Json], key: PlatformKey, now: datetime) -> list[tuple[str, datetime]]:
    """Return the Pods whose certificate ends in less than a sixth of an era, with that time. Ray reads it once."""
    soon = now + timedelta(days=key.days) / 6
    ends = []
    for pod in pods:
        started = (pod.get("status") or {}).get("startTime")
        if started and (end := key.era_end(key.era(parse_time(started)))) < soon:
            ends.append((pod["metadata"]["name"], end))
    return ends
