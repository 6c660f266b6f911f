"""Names, labels and keys that the API accepts, refused in the real server's words."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    too_many,
)
from steelyard_schema.object_names import (
    ANNOTATION_BYTES,
    annotations_size,
    key_faults,
    name_faults,
    value_faults,
)

MOST_NAMES = 1000
"""Stricter than a real server: labels, and finalizers, of one object. Each has its entry in `managedFields`."""


def name_causes(name: str, path: str, kind: str = "subdomain", *, ended: str | None = None) -> list[Cause]:
    """`ended`: the name as it may become, where only its beginning is given."""
    if kind == "path":
        # Names of RBAC may hold colons and capitals (system:admin): they only have to fit into a path.
        faults = [name] if name in (".", "..") else [sign for sign in ("/", "%") if sign in name]
        return [
            invalid(path, name, f"may not {'be' if sign == name else 'contain'} '{sign}'") for sign in faults
        ]
    return [invalid(path, name, text) for text in name_faults(name, kind, ended=ended)]


def key_causes(key: str, path: str, shown: str | None = None) -> list[Cause]:
    """A label's key or a finalizer's name: an optional DNS prefix, a slash, a name. `shown`: the key as it was sent."""
    return [invalid(path, key if shown is None else shown, text) for text in key_faults(key)]


def value_causes(value: str, path: str) -> list[Cause]:
    return [invalid(path, value, text) for text in value_faults(value)]


def labels_causes(labels: Json, path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += key_causes(key, path) + value_causes(value, path)
    return causes


def annotations_causes(annotations: Json, path: str) -> list[Cause]:
    if annotations_size(annotations) > ANNOTATION_BYTES:
        # Alone: hundreds of thousands of keys are not looked at one by one, nor each of their faults told.
        return [Cause(path, "Too long: may not be more than 262144 bytes", "FieldValueTooLong")]
    causes = []
    for key in annotations:
        # Kubernetes checks keys of annotations without regard to case, other than those of labels.
        causes += key_causes(key.lower(), path, key)
    return causes


def metadata_causes(metadata: Json, kind: str) -> list[Cause]:
    """Return the faults of an object's metadata, whatever its kind."""
    if many := _number_causes(metadata, {}):
        return many
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    # What is generated of a name may end with a dash.
    ended = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    causes = name_causes(prefix, "metadata.generateName", kind, ended=ended) if prefix else []
    if not name:
        causes.append(missing_value("metadata.name", "name or generateName is required"))
    else:
        causes += name_causes(name, "metadata.name", kind)
    if (metadata.get("generation") or 0) < 0:
        text = "must be greater than or equal to 0"
        causes.append(invalid("metadata.generation", metadata["generation"], text))
    causes += labels_and_owners_causes(metadata)
    finalizers = sequence(metadata, "finalizers")
    for finalizer in finalizers:
        causes += finalizer_causes(finalizer)
    if {"orphan", "foregroundDeletion"} <= {*finalizers}:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid("metadata.finalizers", finalizers, text))
    return causes


def _number_causes(metadata: Json, before: Json) -> list[Cause]:
    """Return what there is too much of, unless it was there before this bound."""
    return [
        too_many(f"metadata.{field}", count, MOST_NAMES)
        for field in ("labels", "finalizers")
        if (count := len(metadata.get(field) or ())) > max(MOST_NAMES, len(before.get(field) or ()))
    ]


def labels_and_owners_causes(metadata: Json) -> list[Cause]:
    """Return the faults for which every write is checked, also one that changes something else."""
    causes = labels_causes(mapping(metadata, "labels"), "metadata.labels")
    causes += annotations_causes(mapping(metadata, "annotations"), "metadata.annotations")
    return causes + _owner_causes(sequence(metadata, "ownerReferences"))


def update_causes(metadata: Json, before: Json) -> list[Cause]:
    """Return the faults of metadata that takes the place of other metadata."""
    if many := _number_causes(metadata, before):
        return many
    causes = []
    added = {*sequence(metadata, "finalizers")} - {*sequence(before, "finalizers")}
    # Else a deletion could be held up for ever by one new finalizer after another.
    if added and "deletionTimestamp" in before:
        names = ", ".join(f'"{finalizer}"' for finalizer in sorted(added))
        text = "no new finalizers can be added if the object is being deleted, found new finalizers "
        causes.append(forbidden_field("metadata.finalizers", text + "[]string{" + names + "}"))
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) != before.get(name):
            causes.append(invalid(f"metadata.{name}", metadata.get(name), "field is immutable"))
    return causes + labels_and_owners_causes(metadata)


def finalizer_causes(finalizer: str) -> list[Cause]:
    # Kubernetes' own, from before finalizers had to be qualified.
    if finalizer in ("orphan", "foregroundDeletion", "kubernetes"):
        return []
    causes = key_causes(finalizer, "metadata.finalizers")
    if not causes and "/" not in finalizer:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        causes = [invalid("metadata.finalizers[0]", finalizer, text)]
    return causes


def _owner_causes(owners: list[Json]) -> list[Cause]:
    causes, path, controller = [], "metadata.ownerReferences", ""
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version or version.count("/") > 1 or version.endswith("/"):
            causes.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                causes.append(invalid(f"{path}.{field}", "", "must not be empty"))
        # Events go after an hour: what they owned would be collected with them.
        if (version, owner.get("kind")) == ("v1", "Event"):
            causes.append(invalid(path, _owner(owner), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                text = 'Only one reference can have Controller set to true. Found "true" in references for '
                owned = [_owner(reference) for reference in owners]
                causes.append(invalid(path, owned, f"{text}{controller} and {name}"))
            controller = controller or name
    return causes


def _owner(owner: Json) -> Json:
    """A reference in the order in which Go writes its fields."""
    names = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {name: owner[name] for name in names if name in owner}
