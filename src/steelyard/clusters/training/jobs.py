"""Training jobs of every kind: make, find, list, stop, resume, delete."""

import asyncio
import difflib
from collections.abc import Sequence
from itertools import islice

from steelyard.clusters.errors import Fault
from steelyard.clusters.names import JOB_NAME
from steelyard.clusters.training.errors import BadJob, NoSuchJob
from steelyard.clusters.training.frameworks import BY_NAME, KNOWN, TrainingFramework, from_resource
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, BadRequest, Invalid, NotFound
from steelyard_kube.objects import owner_references
from steelyard_kube.resource import CONFIG_MAPS, FRAMEWORKS, PODS, TRAINING, Resource, find_resource
from steelyard_schema.definitions import find_spec_schema
from steelyard_schema.unknown_fields import unknown_fields

_SHOWN = 10
"""Unknown fields that an error names: each has a list of those that there are."""


async def submit(cluster: Cluster, manifest: Json, files: Json | None = None) -> JobView:
    """Make the job, and the ConfigMap with its files, which goes when the job goes. Raises BadJob.

    The job comes first: its Pods wait for the files, while files without a job would stay for ever.
    """
    resource, name = find_resource(manifest), manifest["metadata"]["name"]
    # The API would drop them in silence.
    unknown = unknown_fields(find_spec_schema(manifest), manifest.get("spec"), "spec")
    if first := list(islice(unknown, _SHOWN)):
        more = ("and more" for _ in islice(unknown, 1))
        faults = [Fault(field.path, field.message) for field in first]
        raise BadJob("; ".join([*map(str, first), *more]), faults)
    try:
        created = await cluster.create(resource, manifest)
    except AlreadyExists as error:
        raise BadJob(f"--name {name}: there is a {resource.kind} of this name; choose another") from error
    except (Invalid, BadRequest) as error:
        raise BadJob(f"the cluster refuses the job: {error.message}") from error
    except NotFound as error:
        if "namespaces" in error.message:
            raise BadJob(f"--namespace {manifest['metadata']['namespace']}: {error.message}") from error
        raise BadJob(f"the cluster does not know {resource.kind}: {error.message}") from error
    if files is not None:
        await cluster.create(CONFIG_MAPS, _own(files, created))
    return JobView(created)


def _own(files: Json, job: Json) -> Json:
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {**files, "metadata": {**files["metadata"], "ownerReferences": [owner]}}


async def list_jobs(cluster: Cluster, namespace: str | None = None) -> list[JobView]:
    """Jobs of all kinds, the newest last; kinds that the cluster does not have are left out."""
    by_kind = await asyncio.gather(*(_list_kind(cluster, resource, namespace) for resource in TRAINING))
    jobs = [JobView(resource) for resources in by_kind for resource in resources]
    return sorted(jobs, key=lambda job: (job.resource["metadata"].get("creationTimestamp") or "", job.name))


async def _list_kind(cluster: Cluster, resource: Resource, namespace: str | None) -> list[Json]:
    try:
        return (await cluster.list(resource, namespace)).items
    except NotFound:
        return []


async def find(cluster: Cluster, name: str, namespace: str) -> JobView:
    """The job called `name`, or `kind/name` where kinds share the name. Raises NoSuchJob."""
    kind, _, own = name.rpartition("/")
    kinds = [resource for resource in TRAINING if not kind or kind.lower() in _words(resource)]
    if not kinds:
        known = ", ".join(resource.kind.lower() for resource in TRAINING)
        raise NoSuchJob(f"{name}: there is no kind {kind!r}; there are {known}")
    views = await asyncio.gather(*(_find_named(cluster, resource, own, namespace) for resource in kinds))
    jobs = [view for view in views if view is not None]
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        several = ", ".join(f"{job.kind.lower()}/{job.name}" for job in jobs)
        raise NoSuchJob(f"{name}: should be one of {several}: kinds share the name")
    raise NoSuchJob(await _absent(cluster, own, namespace))


def _words(resource: Resource) -> tuple[str, ...]:
    kind = resource.kind.lower()
    return kind, resource.plural, kind.removesuffix("job")


async def _find_named(cluster: Cluster, resource: Resource, name: str, namespace: str) -> JobView | None:
    try:
        return JobView(await cluster.get(resource, name, namespace))
    except NotFound:
        return None


async def _absent(cluster: Cluster, name: str, namespace: str) -> str:
    there = list(dict.fromkeys(job.name for job in await list_jobs(cluster, namespace)))
    like = [other for other in there if other.startswith(name)] or there[-5:]
    said = f"there are {', '.join(like)}" if like else "there is no job at all"
    return f"{name}: there is no such training job in namespace {namespace}; {said}"


async def pods(cluster: Cluster, job: JobView) -> list[Json]:
    """The job's Pods, in the order of its replicas."""
    labelled = (await cluster.list(PODS, job.namespace, label_selector=f"{JOB_NAME}={job.name}")).items
    own = [pod for pod in labelled if owner(pod) == job.uid]
    return sorted(own, key=lambda pod: pod["metadata"]["name"])


def owner(pod: Json) -> str | None:
    """The uid of its controller."""
    owners: Sequence[Json] = owner_references(pod)
    return next((str(reference["uid"]) for reference in owners if reference.get("controller")), None)


async def stop(cluster: Cluster, job: JobView) -> JobView:
    """Suspend it: its Pods end, and `resume` starts them again, from what the program kept. Raises BadJob."""
    if job.finished:
        raise BadJob(f"{job.name}: has ended already ({job.state})")
    return await _suspend(cluster, job, True)


async def resume(cluster: Cluster, job: JobView) -> JobView:
    """Raises BadJob where it is not stopped."""
    if job.finished or not job.suspended:
        raise BadJob(f"{job.name}: is not stopped; it is {job.state}")
    return await _suspend(cluster, job, False)


async def _suspend(cluster: Cluster, job: JobView, suspend: bool) -> JobView:
    patch: Json = {"spec": {"runPolicy": {"suspend": suspend}}}
    return JobView(await cluster.patch(job.type, job.name, patch, job.namespace))


async def delete(cluster: Cluster, job: JobView) -> None:
    """The job, and with it its Pods and their logs."""
    await cluster.delete(job.type, job.name, job.namespace, uid=job.uid)


async def framework(cluster: Cluster | None, name: str) -> TrainingFramework:
    """One of ours, or a resource of kind Framework. Raises BadJob, which says what there is."""
    if known := BY_NAME.get(name.lower()):
        return known
    own = [] if cluster is None else await _list_kind(cluster, FRAMEWORKS, None)
    if resource := next((item for item in own if item["metadata"]["name"] == name), None):
        return from_resource(resource)
    there = [*(known.name for known in KNOWN), *(item["metadata"]["name"] for item in own)]
    near = difflib.get_close_matches(name.lower(), there, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise BadJob(
        f"--framework {name}: there is no such framework; {hint}there are {', '.join(there)}, and others may be "
        "added as resources of kind Framework"
    )
