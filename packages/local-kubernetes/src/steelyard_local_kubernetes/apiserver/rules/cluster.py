"""ConfigMaps, Secrets, Namespaces and Leases."""

import base64

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_local_kubernetes.apiserver.content import BadContent, decode_json
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, invalid, missing_value
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable
from steelyard_local_kubernetes.apiserver.rules.environment import data_key_causes

FINALIZER = "kubernetes"  # of namespaces
_MAX_BYTES = 1 << 20


def _data_causes(obj: Json, *fields: str) -> list[Cause]:
    causes, size = [], 0
    for field in fields:
        for key, value in mapping(obj, field).items():
            size += len(value)
            causes += data_key_causes(key, f"{field}[{key}]")
    # The values are counted as base64, which is a third longer than what Kubernetes bounds.
    if size > _MAX_BYTES * 4 // 3:
        causes.append(Cause("[]", f"Too long: may not be more than {_MAX_BYTES} bytes", "FieldValueTooLong"))
    return causes


def _immutability_causes(obj: Json, old: Json | None, *fields: str) -> list[Cause]:
    """Data marked immutable stays."""
    if not find_field(old, "immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    changed = [f for f in (*fields, "immutable") if obj.get(f) != (old or {}).get(f)]
    return [forbidden_field(field, text) for field in changed]


def _check_config_map(obj: Json, old: Json | None) -> list[Cause]:
    causes = _data_causes(obj, "data", "binaryData") + _immutability_causes(obj, old, "data", "binaryData")
    for key in mapping(obj, "data").keys() & mapping(obj, "binaryData").keys():
        causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return causes


def _default_secret(obj: Json) -> None:
    defaults(obj, type="Opaque")
    # Kubernetes takes this field and never returns it: it is a way to write `data` without base64.
    if plain := obj.pop("stringData", None):
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**mapping(obj, "data"), **encoded}


def _check_secret(obj: Json, old: Json | None) -> list[Cause]:
    causes = _data_causes(obj, "data") + _type_causes(obj)
    return causes + _immutability_causes(obj, old, "data") + immutable(obj, old, "type")


# Keys that a secret of a type must have.
_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def _type_causes(secret: Json) -> list[Cause]:
    kind, data = secret.get("type") or "", mapping(secret, "data")
    causes = [missing_value(f"data[{key}]") for key in _KEYS.get(kind, ()) if key not in data]
    if kind.startswith("kubernetes.io/dockerc") and not causes:
        key = _KEYS[kind][0]
        try:
            decode_json(base64.b64decode(data[key]))
        except BadContent as error:
            causes.append(invalid(f"data[{key}]", "<secret contents redacted>", str(error)))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        causes += [missing_value("data[username]"), missing_value("data[password]")]
    if kind == "kubernetes.io/service-account-token" and not read_annotations(secret).get(_ACCOUNT):
        causes.append(missing_value(f"metadata.annotations[{_ACCOUNT}]"))
    return causes


def _warn_of_secret(secret: Json, old: Json | None) -> list[str]:
    if secret.get("type") != "kubernetes.io/tls":
        return []
    certificate = base64.b64decode(mapping(secret, "data").get("tls.crt") or "")
    if b"-----BEGIN CERTIFICATE-----" in certificate:
        return []
    return ["tls: failed to find any PEM data in certificate input"]


def _prepare_namespace(obj: Json) -> None:
    # It keeps the namespace until it is empty (`lifecycle.py`).
    finalizers = sequence(obj, "spec", "finalizers")
    obj["spec"] = {"finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]}
    obj["status"] = {"phase": "Active"}


def _default_namespace(obj: Json) -> None:
    # Every server sets this label: policies select namespaces by their names with it.
    obj["metadata"]["labels"] = {
        **read_labels(obj),
        "kubernetes.io/metadata.name": obj["metadata"].get("name", ""),
    }


def _check_namespace_status(obj: Json, old: Json | None) -> list[Cause]:
    phase, deleting = find_field(obj, "status", "phase") or "", "deletionTimestamp" in obj["metadata"]
    if phase and (phase == "Terminating") != deleting:
        expected, state = ("Terminating", "not empty") if deleting else ("Active", "empty")
        text = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        return [invalid("status.Phase", phase, text)]
    return []


def _check_lease(obj: Json, old: Json | None) -> list[Cause]:
    causes = []
    for name, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = find_field(obj, "spec", name)
        if isinstance(value, int) and value < least:
            text = "must be greater than 0" if least else "must be greater than or equal to 0"
            causes.append(invalid(f"spec.{name}", value, text))
    return causes


CONFIG_MAP = Rules(check=_check_config_map)
SECRET = Rules(default=_default_secret, check=_check_secret, warn=_warn_of_secret)
NAMESPACE = Rules(
    prepare=_prepare_namespace, default=_default_namespace, status_check=_check_namespace_status
)
LEASE = Rules(check=_check_lease)
