"""A framework by its file: `train run --framework averaging.yaml` brings the Framework to the cluster, then uses it."""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.clusters.training import jobs
from steelyard.clusters.training.frameworks import TrainingFramework, of_resource
from steelyard.errors import UsageError
from steelyard.kube.errors import AlreadyExists
from steelyard.kube.resource import FRAMEWORKS
from steelyard.types import Json

if TYPE_CHECKING:
    from steelyard.kube.client import RestCluster

ENDINGS = (".yaml", ".yml", ".json")


async def framework(cluster: "RestCluster | None", name: str, *, apply: bool) -> TrainingFramework:
    """One of ours, a Framework that the cluster has, or that of a file. Raises BadJob, UsageError."""
    if not name.endswith(ENDINGS):
        return await jobs.framework(cluster, name)
    framework = read(Path(name))
    if apply and cluster is not None:
        try:
            await cluster.create(FRAMEWORKS, framework)
        except AlreadyExists:
            await cluster.patch(FRAMEWORKS, framework["metadata"]["name"], {"spec": framework["spec"]})
    return of_resource(framework)


def read(path: Path) -> Json:
    """The Framework in a file. Raises UsageError."""
    import yaml

    try:
        framework = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"--framework {path}: {error}") from error
    if not isinstance(framework, dict) or framework.get("kind") != FRAMEWORKS.kind:
        raise UsageError(f"--framework {path}: should hold one resource of kind Framework")
    return framework
