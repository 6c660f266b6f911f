"""The RayJob that a configuration describes, and the Secrets with its working directory: pure functions."""

import base64
from collections.abc import Sequence

from steelyard.clusters.ray import names
from steelyard.clusters.ray.job_config import JobConfig, entrypoint_options
from steelyard.clusters.ray.manifest import cluster_spec
from steelyard.clusters.ray.packing import Package
from steelyard_common.types import Json

FOLDER = "/home/ray/steelyard-job"
JOIN = (
    "import glob,io,zipfile; "
    "data=b''.join(open(p,'rb').read() for p in sorted(glob.glob('/steelyard-pieces/*'))); "
    f"zipfile.ZipFile(io.BytesIO(data)).extractall('{FOLDER}')"
)


def ray_job(
    config: JobConfig, namespace: str, queue: str | None, pieces: Sequence[str], image: str = ""
) -> Json:
    """Return the resource; `pieces` names the Secrets with the working directory, in order.

    `image` is that of the cluster that the job names: Ray's versions of submitter and cluster have to be the same.
    """
    import yaml

    labels = names.queue_labels(config.labels, queue, config.priority_class)
    metadata: Json = {"name": config.name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    spec: Json = {"entrypoint": config.entrypoint, **entrypoint_options(config)}
    environment = config.runtime_env.document()
    if pieces:
        environment["working_dir"] = FOLDER
        spec["submitterPodTemplate"] = _submitter(config, pieces, image)
    if environment:
        spec["runtimeEnvYAML"] = yaml.safe_dump(environment, sort_keys=False)
    if config.metadata:
        spec["metadata"] = dict(config.metadata)
    if config.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = config.active_deadline_seconds
    if config.retries:
        spec["backoffLimit"] = config.retries
    if config.cluster_config is not None:
        spec["rayClusterSpec"] = cluster_spec(config.cluster_config, elastic=queue is not None)
        spec["shutdownAfterJobFinishes"] = not config.keep_cluster
        if config.ttl_seconds is not None:
            spec["ttlSecondsAfterFinished"] = config.ttl_seconds
    else:
        spec["clusterSelector"] = {names.CLUSTER: config.cluster}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def piece_secrets(config: JobConfig, namespace: str, package: Package) -> list[Json]:
    """Return the Secrets that hold the working directory."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{config.name}-files-{number:03}", "namespace": namespace},
            "type": "Opaque",
            "data": {f"piece-{number:03}": base64.b64encode(piece).decode()},
        }
        for number, piece in enumerate(package.pieces())
    ]


def owner_patch(job: Json) -> Json:
    """Return the patch of a Secret that makes the job its owner, so that it is deleted with the job."""
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {"metadata": {"ownerReferences": [owner]}}


def _submitter(config: JobConfig, pieces: Sequence[str], image: str) -> Json:
    if config.cluster_config is not None:
        image = config.cluster_config.full_image
    joined = {"name": "working-dir", "mountPath": FOLDER}
    sources = [{"secret": {"name": name}} for name in pieces]
    return {
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [
                {
                    "name": "join-working-dir",
                    "image": image,
                    "command": ["python", "-c", JOIN],
                    "volumeMounts": [joined, {"name": "pieces", "mountPath": "/steelyard-pieces"}],
                }
            ],
            "containers": [{"name": "ray-job-submitter", "image": image, "volumeMounts": [joined]}],
            "volumes": [
                {"name": "working-dir", "emptyDir": {}},
                {"name": "pieces", "projected": {"sources": sources}},
            ],
        }
    }
