"""Warnings about Pods and their templates: fields that are taken, and will not do what their author thinks."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations
from steelyard_local_kubernetes.apiserver.errors import value_text
from steelyard_local_kubernetes.apiserver.rules.fields import clamp_quantity
from steelyard_schema.object_names import name_faults

_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
}
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SHOWN_VOLUMES = {"storageos": "storageOS"}
_NO_POD = "a null labelSelector results in matching no pod"
_REQUIRED, _PREFERRED = (
    f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
)
_MOST = (
    4096  # of one rule: no answer has as many letters of warnings, and each file may overlap each other one
)
_MANY_INDEXES, _MANY_AT_ONCE = 100_000, 10_000
File = tuple[str, str]  # a path, and words for where it comes from


def name_warnings(obj: Json, used: str = "Pod names and hostnames") -> list[str]:
    """Warnings about a name that is `used` where only a label may be."""
    faults = list(name_faults(obj["metadata"]["name"], "label"))
    text = f"this is used in {used}, which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: {text}: [{' '.join(faults)}]"] if faults else []


def template_warnings(template: Json, path: str) -> list[str]:
    """Warnings about a template that lies at `path`."""
    return pod_warnings(template, f"{path}.")


def pod_warnings(pod: Json, prefix: str = "") -> list[str]:
    spec, path = mapping(pod, "spec"), f"{prefix}spec"
    annotations = read_annotations(pod)
    warnings = [
        f"{prefix}metadata.annotations[{name}]: {text}"
        for name, text in _ANNOTATIONS.items()
        if name in annotations
    ]
    for fields, rule in _RULES:
        # Each Pod is looked at, and nearly none has most of these fields.
        if not spec.keys().isdisjoint(fields):
            warnings += islice(rule(spec, path), _MOST)
    return warnings


def job_warnings(spec: Json, path: str) -> list[str]:
    """Warnings about the spec of a Job, or of a template of Jobs."""
    warnings = []
    many = (spec.get("completions") or 0) > _MANY_INDEXES and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
    if spec.get("completionMode") == "Indexed" and many:
        text = (
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
            "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
        warnings.append(f"{path}: {text}")
    return warnings + template_warnings(spec["template"], f"{path}.template")


def claim_warnings(spec: Json, path: str) -> list[str]:
    """Warnings about the spec of a claim."""
    resources = mapping(spec, "resources")
    return [
        warning
        for field in ("requests", "limits")
        for warning in _fractions(mapping(resources, field), f"{path}.resources.{field}", ("storage",))
    ]


def _label_warnings(spec: Json, path: str) -> Iterator[str]:
    for key in mapping(spec, "nodeSelector"):
        if key in _LABELS:
            yield f"{path}.nodeSelector[{key}]: {_LABELS[key]}"
    affinity, where = mapping(spec, "affinity", "nodeAffinity"), f"{path}.affinity.nodeAffinity"
    terms = sequence(affinity, _REQUIRED, "nodeSelectorTerms")
    for index, term in enumerate(terms):
        yield from _term_warnings(term, f"{where}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, term in enumerate(sequence(affinity, _PREFERRED)):
        yield from _term_warnings(mapping(term, "preference"), f"{where}.{_PREFERRED}[{index}].preference")
    for index, spread in enumerate(sequence(spec, "topologySpreadConstraints")):
        where, key = f"{path}.topologySpreadConstraints[{index}]", spread.get("topologyKey")
        if key in _LABELS:
            yield f"{where}.topologyKey: {key} is {_LABELS[key]}"
        if spread.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NO_POD}"


def _term_warnings(term: Json, path: str) -> Iterator[str]:
    for index, expression in enumerate(sequence(term, "matchExpressions")):
        if (key := expression.get("key")) in _LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {_LABELS[key]}"


def _volume_warnings(spec: Json, path: str) -> Iterator[str]:
    volumes = sequence(spec, "volumes")
    for index, volume in enumerate(volumes):
        where = f"{path}.volumes[{index}]"
        for name, text in _VOLUMES.items():
            if volume.get(name) is not None:
                yield f"{where}.{_SHOWN_VOLUMES.get(name, name)}: {text}"
        claim = mapping(volume, "ephemeral", "volumeClaimTemplate", "spec")
        yield from claim_warnings(claim, f"{where}.ephemeral.volumeClaimTemplate.spec")
    for volume in volumes:
        yield from _overlap_warnings(volume)


def _overlap_warnings(volume: Json) -> Iterator[str]:
    """Files of one volume that hide each other."""
    name = value_text(volume.get("name"))
    for field, kind, called in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        source = mapping(volume, field)
        for text in _overlaps([(item.get("path") or "", "") for item in sequence(source, "items")]):
            yield f"volume {name} ({kind} {value_text(source.get(called) or '')}): overlapping paths: {text}"
    files = [(item.get("path") or "", "") for item in sequence(volume, "downwardAPI", "items")]
    for text in _overlaps(files):
        yield f"volume {name} (DownwardAPI): overlapping paths: {text}"
    projected: list[tuple[str, str]] = []
    for source in sequence(volume, "projected", "sources"):
        if not any(value is not None for value in source.values()):
            yield f"volume {name} (Projected) has no sources provided"
        projected += _source_files(source)
    for text in _overlaps(projected):
        yield f"volume {name} (Projected): overlapping paths: {text}"


def _source_files(source: Json) -> list[tuple[str, str]]:
    """Return the paths of one source of a projected volume, each with the words for that source."""
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        if items := sequence(source, field, "items"):
            called = "" if field == "downwardAPI" else f" {value_text(source[field].get('name') or '')}"
            return [(item.get("path") or "", f"{kind}{called}") for item in items]
    if (token := source.get("serviceAccountToken")) is not None:
        return [(token.get("path") or "", "ServiceAccountToken")]
    if (bundle := source.get("clusterTrustBundle")) is not None:
        name = bundle["name"] if bundle.get("name") is not None else bundle.get("signerName")
        return [(bundle.get("path") or "", f"ClusterTrustBundle {value_text(name)}")]
    certificate, fields = mapping(source, "podCertificate"), {
        "certificateChainPath": "chain", "keyPath": "key", "credentialBundlePath": "credential bundle",
    }  # fmt: skip
    return [
        (certificate[field], f"PodCertificate {fields[field]}") for field in fields if certificate.get(field)
    ]


def _overlaps(files: list[tuple[str, str]]) -> Iterator[str]:
    for (path, source), (other, other_source) in overlaps(files):
        yield f"{_file(path, source)} with {_file(other, other_source)}"


def _file(path: str, source: str) -> str:
    return f"{value_text(path)} ({source})" if source else value_text(path)


def _duplicates(spec: Json, path: str, field: str, name: str) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(sequence(spec, field)):
        value = item.get(name) or ""
        if value in seen:
            yield f"{path}.{field}[{index}].{name}: duplicate {name} {value_text(value)}"
        seen.add(value)


def _duplicate_warnings(spec: Json, path: str) -> Iterator[str]:
    yield from _duplicates(spec, path, "hostAliases", "ip")
    yield from _duplicates(spec, path, "imagePullSecrets", "name")


def _secret_warnings(spec: Json, path: str) -> Iterator[str]:
    for index, secret in enumerate(sequence(spec, "imagePullSecrets")):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(mapping(spec, "overhead"), f"{path}.overhead", ("memory", "ephemeral-storage"))


def _fractions(amounts: Json, path: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if name in amounts and clamp_quantity(amounts[name]) % 1:
            text = f"fractional byte value {value_text(str(amounts[name]))} is invalid, must be an integer"
            yield f"{path}[{name}]: {text}"


def _containers(spec: Json, path: str) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec, field)):
            yield f"{path}.{field}[{index}]", container


def _container_warnings(spec: Json, path: str) -> Iterator[str]:
    for where, container in _containers(spec, path):
        resources = mapping(container, "resources")
        for name in ("memory", "ephemeral-storage"):
            for field in ("limits", "requests"):
                yield from _fractions(mapping(resources, field), f"{where}.resources.{field}", (name,))
        seen = set()
        for index, variable in enumerate(sequence(container, "env")):
            name = variable.get("name") or ""
            # A value that contains the former one does not hide it.
            own = f"$({name})"
            value = variable.get("value") or ""
            kept = variable.get("valueFrom") is None and own in value and value != own
            if name in seen and not kept:
                text = (
                    f"hides previous definition of {value_text(name)}, which may be dropped when using apply"
                )
                yield f"{where}.env[{index}]: {text}"
            seen.add(name)


def _port_warnings(spec: Json, path: str) -> Iterator[str]:
    by_number: dict[tuple[int, str], list[tuple[str, Json]]] = {}
    by_name: dict[str, str] = {}
    twice: list[str] = []
    for where, port in _ports(spec, path):
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{where}: hostIP set without hostPort: {_as_go(port)}"
        others = by_number.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
        for place, other in others:
            if relation := _relation(port, other):
                yield f"{where}: {relation} port definition with {place}"
        others.append((where, port))
        if name := port.get("name"):
            if first := by_name.get(name):
                twice.append(
                    f"{where}: duplicate port name {value_text(name)} with {first}, "
                    f"services and probes that select ports by name will use {first}"
                )
            by_name.setdefault(name, where)
    yield from twice


def _ports(spec: Json, path: str) -> Iterator[tuple[str, Json]]:
    for where, container in _containers(spec, path):
        for index, port in enumerate(sequence(container, "ports")):
            yield f"{where}.ports[{index}]", port


def _relation(port: Json, other: Json) -> str:
    """Return what two entries for one port of a Pod are to each other; the empty text where they may both be."""
    addresses = [entry.get("hostIP") or "" for entry in (port, other)]
    ports = [entry.get("hostPort") or 0 for entry in (port, other)]
    if addresses[0] == addresses[1] and ports[0] == ports[1]:
        return "duplicate"
    if 0 in ports:
        return "overlapping"
    return "dangerously ambiguous" if ports[0] == ports[1] and "" in addresses else ""


def _as_go(port: Json) -> str:
    numbers = f"HostPort:{port.get('hostPort') or 0} ContainerPort:{port.get('containerPort') or 0}"
    words = f"Protocol:{port.get('protocol') or ''} HostIP:{port.get('hostIP') or ''}"
    return f"{{Name:{port.get('name') or ''} {numbers} {words}}}"


def _grace_warnings(spec: Json, path: str) -> Iterator[str]:
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"


def _affinity_warnings(spec: Json, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity, where = mapping(spec, "affinity", kind), f"{path}.affinity.{kind}"
        for index, term in enumerate(sequence(affinity, _REQUIRED)):
            if term.get("labelSelector") is None:
                yield f"{where}.{_REQUIRED}[{index}].labelSelector: {_NO_POD}"
        for index, term in enumerate(sequence(affinity, _PREFERRED)):
            if mapping(term, "podAffinityTerm").get("labelSelector") is None:
                yield f"{where}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"


# In the order of a real server.
_RULES: tuple[tuple[tuple[str, ...], Callable[[Json, str], Iterator[str]]], ...] = (
    (("nodeSelector", "affinity", "topologySpreadConstraints"), _label_warnings),
    (("volumes",), _volume_warnings),
    (("hostAliases", "imagePullSecrets"), _duplicate_warnings),
    (("imagePullSecrets", "overhead"), _secret_warnings),
    (("initContainers", "containers"), _container_warnings),
    (("initContainers", "containers"), _port_warnings),
    (("terminationGracePeriodSeconds",), _grace_warnings),
    (("affinity",), _affinity_warnings),
)


def overlaps(files: list[File]) -> Iterator[tuple[File, File]]:
    """Yield each file with each earlier one that has its path or lies above or below it; every pair once.

    The time grows with the files and the pairs that are asked for, whatever a client has sent.
    """
    files = [(path.rstrip("/"), source) for path, source in files]
    above = _nearest_above({path for path, _ in files if path})
    different: list[File] = []
    at: defaultdict[str, list[int]] = defaultdict(list)  # indexes in `different` of files with a path
    below: defaultdict[str, list[int]] = defaultdict(list)
    compared: dict[File, int] = {}
    for file in files:
        if not file[0]:
            continue
        higher, folder = [], above[file[0]]
        while folder is not None:
            higher.append(folder)
            folder = above[folder]
        related = [*(at[path] for path in higher), at[file[0]], below[file[0]]]
        # Of a file that is there twice the second one is compared with those between them alone.
        first = compared.get(file, 0)
        for index in sorted(index for indexes in related for index in indexes[bisect_left(indexes, first) :]):
            yield file, different[index]
        if file not in compared:
            at[file[0]].append(len(different))
            for path in higher:
                below[path].append(len(different))
            compared[file] = len(different)
            different.append(file)
        else:
            compared[file] = len(different)


def _nearest_above(paths: set[str]) -> dict[str, str | None]:
    """Return of each path the longest other one that is a folder above it."""
    above: dict[str, str | None] = {}
    stack: list[str] = []
    # In this order all that lies below a path follows it at once.
    for path in sorted(paths, key=lambda path: f"{path}/"):
        while stack and not path.startswith(f"{stack[-1]}/"):
            stack.pop()
        above[path] = stack[-1] if stack else None
        stack.append(path)
    return above
