"""Conversion of jobs in the list form of early operators to kinds of `kubeflow.org/v1` (`steelyard train convert`).

In that form `spec` is a list of replicas, each with its type and one container, or a map with such a list below
`replicaSpecs`. Names of fields were never settled, so several are read; notes tell what is left out, and changes.
Versions just before v1 had today's map of replicas, and the fields of the runPolicy directly in `spec`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.frameworks import BY_NAME, TrainingFramework
from steelyard_common.types import Json, mapping, sequence, value_text

_TYPE = ("replicaType", "replica_type", "mxReplicaType", "tfReplicaType", "type", "role", "name")
_COUNT = ("replicas", "count", "num_replicas", "numReplicas")
_LISTS = ("replicaSpecs", "replica_specs", "mxReplicaSpecs", "tfReplicaSpecs", "replicas")
_PORT = ("PsRootPort", "psRootPort", "port")
_POD = frozenset(
    {"volumes", "nodeSelector", "tolerations", "imagePullSecrets", "serviceAccountName", "hostNetwork"}
)
_CONTAINER = frozenset(
    {"image", "command", "args", "env", "resources", "ports", "volumeMounts", "workingDir", "imagePullPolicy"}
)
_UNDERSTOOD = frozenset(
    {*_TYPE, *_COUNT, *_PORT, *_POD, *_CONTAINER, "template", "container", "containers", "restartPolicy"}
)
_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
_RUN_POLICY = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
"""Fields that stood next to the replicas before there was a runPolicy."""
_OURS = ("DMLC_", "MX_CONFIG", "TF_CONFIG")
"""Variables that the operator sets. Set by hand they would win, with the old addresses."""


@dataclass(frozen=True)
class Conversion:
    """A job that can be applied, and the changes that its author should know."""

    resource: Json
    notes: tuple[str, ...] = ()


def convert(document: object) -> Conversion:
    """The job of one YAML document. Raises BadJob, which names the field that it does not understand."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise BadJob("this is not a manifest: it has no `kind`")
    framework = _framework(document)
    spec = document.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get(framework.specs), dict):
        return _bring_up(document, framework)
    entries, where = _entries(spec)
    notes: list[str] = []
    specs: Json = {}
    for number, entry in enumerate(entries):
        name, replica = _replica(entry, framework, f"{where}[{number}]", notes)
        if name in specs:
            raise BadJob(f"{where}[{number}]: the replica type {name} is there twice")
        specs[name] = replica
    rest = {key: spec[key] for key in spec if key not in _LISTS} if isinstance(spec, dict) else {}
    return Conversion(_resource(document, framework, specs, rest, notes), tuple(dict.fromkeys(notes)))


def _framework(document: Json) -> TrainingFramework:
    kind = str(document["kind"]).lower()
    framework = BY_NAME.get(kind.removesuffix("job"))
    if framework is None:
        there = ", ".join(dict.fromkeys(known.resource.kind for known in BY_NAME.values()))
        raise BadJob(f"kind: {document['kind']} is none that is known; there are {there}")
    return framework


def _bring_up(document: Json, framework: TrainingFramework) -> Conversion:
    """A job whose replicas are a map already, of v1 or of the versions just before it."""
    version = f"{framework.resource.group}/{framework.resource.version}"
    spec, before = {**document["spec"]}, document.get("apiVersion")
    moved = {name: spec.pop(name) for name in _RUN_POLICY if name in spec}
    if before == version and not moved:
        return Conversion(document, ("It is in the form of kubeflow.org/v1 already; nothing was changed.",))
    notes = [f"apiVersion is {version}, and was {before or 'missing'}"] if before != version else []
    if moved:
        notes.append(f"moved to spec.runPolicy: {', '.join(moved)}")
        spec = {"runPolicy": {**moved, **(spec.pop("runPolicy", None) or {})}, **spec}
    named = {"apiVersion": version, "kind": framework.resource.kind}
    return Conversion(
        {**named, **{k: v for k, v in document.items() if k not in named}, "spec": spec}, tuple(notes)
    )


def _entries(spec: object) -> tuple[list[object], str]:
    if isinstance(spec, list):
        return spec, "spec"
    for name in _LISTS:
        if isinstance(spec, dict) and isinstance(spec.get(name), list):
            return spec[name], f"spec.{name}"
    raise BadJob(f"spec: has to be a list of replicas, or to have one below {', '.join(_LISTS)}")


def _resource(
    document: Json, framework: TrainingFramework, specs: Json, rest: Json, notes: list[str]
) -> Json:
    given = mapping(document, "metadata")
    if not given.get("name"):
        raise BadJob("metadata.name: is missing")
    metadata = {key: given[key] for key in ("name", "namespace", "labels", "annotations") if given.get(key)}
    run_policy = {"runPolicy": {"cleanPodPolicy": "Running", **(rest.pop("runPolicy", None) or {})}}
    mode = {"jobMode": rest.pop("jobMode", "MXTrain")} if framework.name == "mxnet" else {}
    if rest:
        notes.append(f"left out of spec: {', '.join(sorted(rest))}")
    return {
        "apiVersion": f"{framework.resource.group}/{framework.resource.version}",
        "kind": framework.resource.kind,
        "metadata": metadata,
        "spec": {**mode, **run_policy, framework.specs: specs},
    }


def _replica(entry: object, framework: TrainingFramework, where: str, notes: list[str]) -> tuple[str, Json]:
    if isinstance(entry, dict) and len(entry) == 1:  # - scheduler: {replicas: 1, image: ...}
        ((key, inside),) = entry.items()
        if isinstance(inside, dict) and key not in ("template", *_TYPE):
            entry = {"type": key, **inside}
    if not isinstance(entry, dict):
        raise BadJob(f"{where}: has to be an object with a replica type, not {value_text(entry)}")
    name = _type(entry, framework, where)
    count = _first(entry, _COUNT, 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise BadJob(f"{where}: {value_text(count)} is not a number of replicas")
    template = _template(entry, where)
    _name_container(template, framework, where, notes)
    _move_port(entry, template, framework, name)
    _drop_variables(template, notes)
    policy = entry.get("restartPolicy") or template["spec"].pop("restartPolicy", None) or "OnFailure"
    if policy not in _POLICIES:
        raise BadJob(f"{where}.restartPolicy: {value_text(policy)} is not one of {', '.join(_POLICIES)}")
    if unknown := sorted(entry.keys() - _UNDERSTOOD):
        notes.append(f"left out of {where}: {', '.join(unknown)}")
    return name, {"replicas": count, "restartPolicy": policy, "template": template}


def _type(entry: Json, framework: TrainingFramework, where: str) -> str:
    type_ = str(_first(entry, _TYPE, ""))
    plain = type_.replace("_", "").replace("-", "").lower().removeprefix("mx")
    role = next((known for known in framework.known if known.lower() == plain), None)
    if role is None:
        there = ", ".join(framework.known)
        raise BadJob(
            f"{where}: {type_ or 'nothing'} is not a replica type of {framework.resource.kind}; there are {there}"
        )
    return role


def _template(entry: Json, where: str) -> Json:
    """The Pods' template, from whichever form the container was written in."""
    template = mapping(entry, "template")
    spec: Json = {**(template.get("spec") or {key: template[key] for key in template if key != "metadata"})}
    spec |= {key: entry[key] for key in _POD if key in entry}
    flat = {key: entry[key] for key in _CONTAINER if key in entry}
    containers = spec.get("containers") or entry.get("containers") or [entry.get("container") or flat]
    if not isinstance(containers, list) or not all(
        isinstance(container, dict) and container.get("image") for container in containers
    ):
        raise BadJob(f"{where}: has no container with an image")
    spec["containers"] = [_container(container) for container in containers]
    metadata = {"metadata": template["metadata"]} if template.get("metadata") else {}
    return {**metadata, "spec": spec}


def _container(container: Json) -> Json:
    """The container, with its variables as a list and its command as one."""
    made = {**container}
    if isinstance(made.get("env"), Mapping):
        made["env"] = [{"name": name, "value": str(value)} for name, value in made["env"].items()]
    for key in ("command", "args"):
        if isinstance(made.get(key), str):
            made[key] = ["sh", "-c", made[key]] if key == "command" else [made[key]]
    return made


def _name_container(template: Json, framework: TrainingFramework, where: str, notes: list[str]) -> None:
    containers = template["spec"]["containers"]
    if any(container.get("name") == framework.container for container in containers):
        return
    before = containers[0].get("name")
    containers[0] = {"name": framework.container, **{k: v for k, v in containers[0].items() if k != "name"}}
    if before:
        notes.append(f"{where}: the container {before} is called {framework.container} now, as the kind asks")


def _move_port(entry: Json, template: Json, framework: TrainingFramework, name: str) -> None:
    port = _first(entry, _PORT, None)
    if port is None or (framework.name == "mxnet" and name != "Scheduler"):
        return
    main = next(
        container for container in template["spec"]["containers"] if container["name"] == framework.container
    )
    label = f"{framework.resource.kind.lower()}-port"
    main["ports"] = [*sequence(main, "ports"), {"name": label, "containerPort": int(port)}]


def _drop_variables(template: Json, notes: list[str]) -> None:
    for container in template["spec"]["containers"]:
        dropped = [
            variable["name"] for variable in sequence(container, "env") if variable["name"].startswith(_OURS)
        ]
        if dropped:
            container["env"] = [variable for variable in container["env"] if variable["name"] not in dropped]
            notes.append(f"left out, because the operator sets them: {', '.join(sorted(dropped))}")


def _first(entry: Json, names: tuple[str, ...], default: Any) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), default)
