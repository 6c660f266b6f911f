"""Names, labels and keys that the API accepts, refused in the real server's words."""

import re

from steelyard.local.apiserver.errors import Cause, invalid, required
from steelyard.types import Json, mapping, sequence

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_SERVICE}')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '({_QUALIFIED})?')"
)
_CHECKS = {
    "subdomain": (re.compile(_SUBDOMAIN), _SUBDOMAIN_TEXT, 253),
    "label": (re.compile(_LABEL), _LABEL_TEXT, 63),
    "service": (re.compile(_SERVICE), _SERVICE_TEXT, 63),
    # Names of RBAC may hold colons and capitals (system:admin): they only have to fit into a path.
    "path": (re.compile(r"(?!\.\.?$)[^/%]+"), "may not be '.' or '..', and may not contain '/' or '%'", 253),
}
_KEY = re.compile(_QUALIFIED)
_PREFIX = re.compile(_SUBDOMAIN)


def name_causes(name: str, path: str, kind: str = "subdomain") -> list[Cause]:
    pattern, text, limit = _CHECKS[kind]
    causes = []
    if len(name) > limit:
        causes.append(invalid(path, name, f"must be no more than {limit} characters"))
    if not pattern.fullmatch(name):
        causes.append(invalid(path, name, text))
    return causes


def key_causes(key: str, path: str) -> list[Cause]:
    """A label's key or a finalizer's name: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return [invalid(path, key, f"prefix part {_SUBDOMAIN_TEXT}")]
    if not name:
        return [invalid(path, key, "name part must be non-empty")]
    if len(name) > 63:
        return [invalid(path, key, "name part must be no more than 63 characters")]
    return [] if _KEY.fullmatch(name) else [invalid(path, key, _KEY_TEXT)]


def value_causes(value: str, path: str) -> list[Cause]:
    if len(value) > 63:
        return [invalid(path, value, "must be no more than 63 characters")]
    return [] if not value or _KEY.fullmatch(value) else [invalid(path, value, _VALUE_TEXT)]


def labels_causes(labels: Json, path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += key_causes(key, path) + value_causes(value, path)
    return causes


def metadata_causes(metadata: Json, kind: str) -> list[Cause]:
    """Return the faults of an object's metadata, whatever its kind."""
    name = metadata.get("name") or ""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    causes = name_causes(name, "metadata.name", kind)
    causes += labels_causes(mapping(metadata, "labels"), "metadata.labels")
    for key in mapping(metadata, "annotations"):
        # Kubernetes checks keys of annotations without regard to case, other than those of labels.
        causes += key_causes(key.lower(), "metadata.annotations")
    if sum(len(k) + len(v) for k, v in mapping(metadata, "annotations").items()) > 256 << 10:
        causes.append(
            Cause("metadata.annotations", "Too long: may not be more than 262144 bytes", "FieldValueTooLong")
        )
    for finalizer in sequence(metadata, "finalizers"):
        causes += finalizer_causes(finalizer)
    return causes + _owner_causes(sequence(metadata, "ownerReferences"))


def finalizer_causes(finalizer: str) -> list[Cause]:
    # Kubernetes' own, from before finalizers had to be qualified.
    if finalizer in ("orphan", "foregroundDeletion", "kubernetes"):
        return []
    if "/" not in finalizer:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        return [invalid("metadata.finalizers[0]", finalizer, text)]
    return key_causes(finalizer, "metadata.finalizers")


def _owner_causes(owners: list[Json]) -> list[Cause]:
    causes = []
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = "version must not be empty" if field == "apiVersion" else "must not be empty"
                causes.append(invalid(f"metadata.ownerReferences.{field}", "", text))
        # Events go after an hour: what they owned would be collected with them.
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            text = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(Cause("metadata.ownerReferences", f"Invalid value: {text}"))
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        text = "Only one reference can have Controller set to true."
        causes.append(Cause("metadata.ownerReferences", f"Invalid value: {text}"))
    return causes
