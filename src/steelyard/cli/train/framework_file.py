"""A framework by its file: `train run --framework averaging.yaml` brings the Framework to the cluster, then uses it."""

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.clusters.training import jobs
from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.frameworks import TrainingFramework, from_resource
from steelyard_common.errors import UsageError
from steelyard_common.types import Json, value_text
from steelyard_kube.errors import AlreadyExists
from steelyard_kube.resource import FRAMEWORKS

if TYPE_CHECKING:
    from steelyard_kube.client import RestCluster

ENDINGS = (".yaml", ".yml", ".json")
_OBJECT = 'Invalid value: "object": '
"""Beginning of what the server says of an object that breaks a rule."""


async def framework(cluster: "RestCluster | None", name: str, *, apply: bool) -> TrainingFramework:
    """One of ours, a Framework that the cluster has, or that of a file. Raises BadJob, UsageError."""
    if not is_file(name):
        return await jobs.framework(cluster, name)
    framework = read(Path(name))
    if apply and cluster is not None:
        try:
            await cluster.create(FRAMEWORKS, framework)
        except AlreadyExists:
            await cluster.patch(FRAMEWORKS, framework["metadata"]["name"], {"spec": framework["spec"]})
    return from_resource(framework)


def is_file(name: str) -> bool:
    """Return whether `--framework` names a file."""
    return name.endswith(ENDINGS)


def check_job(job: Json, framework: Json) -> None:
    """Check a job as the operator does when it first sees it with this Framework. Raises BadJob.

    What depends on the operator's settings, such as the place of an output, is not known here.
    """
    from steelyard.operator.settings import OperatorSettings
    from steelyard.operator.training import parse, spec_types, validate
    from steelyard.operator.training.frameworks import definition
    from steelyard.operator.training.model import Invalid

    known = {framework["metadata"]["name"]: framework}
    try:
        checked = spec_types.check(job)
        validate.check(
            parse.parse_job(
                checked, definition.find_framework(checked, known), OperatorSettings(storage="file:///")
            )
        )
    except Invalid as error:
        raise BadJob(f"the operator would refuse the job: {error}") from error


def check_definitions(*resources: Json) -> None:
    """Check resources as the API server does: by their definitions, with the rules in CEL. Raises BadJob.

    What evaluates these comes with `steelyard[local]`; without it they are left to the server.
    """
    if find_spec("steelyard_local_kubernetes") is None:
        return
    from steelyard_local_kubernetes.apiserver.custom import read_kinds
    from steelyard_local_kubernetes.apiserver.schema import fill_defaults
    from steelyard_schema.training.crd import training_definitions

    kinds = {kind.kind: kind for definition in training_definitions() for kind in read_kinds(definition)}
    for resource in resources:
        kind, filled = kinds[resource["kind"]], deepcopy(resource)
        fill_defaults(kind.node(), filled)
        if causes := kind.rules.check(filled, None):
            words = (f"{cause.field}: {cause.message.removeprefix(_OBJECT)}" for cause in causes)
            faults = "; ".join(text.removeprefix("<nil>: ") for text in words)
            name = resource["metadata"].get("name")
            raise BadJob(f"the cluster would refuse {resource['kind']} {name}: {faults}")


def read(path: Path) -> Json:
    """The Framework in a file. Raises UsageError."""
    import yaml
    from pydantic import ValidationError

    from steelyard.cli.manifests import check_manifest
    from steelyard_common.bounded_yaml import load
    from steelyard_common.whole_files import read_whole
    from steelyard_schema.faults import faults_text
    from steelyard_schema.training.dl_job import FrameworkSpec

    try:
        framework = load(read_whole(path).decode())
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"--framework {path}: {error}") from error
    if not isinstance(framework, dict) or framework.get("kind") != FRAMEWORKS.kind:
        raise UsageError(f"--framework {path}: should hold one resource of kind Framework")
    # Fields that an apiVersion does not know are not looked for.
    if framework.get("apiVersion") != FRAMEWORKS.api_version:
        there = value_text(framework.get("apiVersion"))
        raise UsageError(f"--framework {path}: apiVersion: should be {FRAMEWORKS.api_version}, not {there}")
    check_manifest(f"--framework {path}", framework)
    try:
        # Strictly, as the cluster: it does not take the text "7000" for a number.
        FrameworkSpec.model_validate(framework.get("spec"), strict=True)
    except ValidationError as error:
        raise UsageError(f"--framework {path}: {faults_text(error, 'spec.', FrameworkSpec)}") from error
    return framework
