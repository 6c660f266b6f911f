"""Requests to the head of a Ray cluster about a submission, by Ray's own jobs API.

That API has no watch, so the state of a RayJob that runs is polled.
"""

import json
import logging

from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.controllers.ray import names
from steelyard_local_kubernetes.controllers.ray.job import SUBMISSION
from steelyard_local_kubernetes.controllers.ray.submitter import runtime_environment

TIMEOUT_SECONDS = 5.0
_log = logging.getLogger(__name__)


async def observe(cluster: Cluster, job: Json, children: list[Json]) -> list[Json]:
    """Return what the head says as one object, or nothing. A job in HTTPMode that the head does not know is submitted.

    Ray takes a submission's id once, so that a second submission changes nothing.
    """
    status = read_status(job)
    if status.get("jobDeploymentStatus") != "Running" or not status.get("jobId"):
        return []
    head = next((child for child in children if child["kind"] == "RayCluster"), None)
    address = mapping(head, "status", "head").get("serviceIP") if head else None
    if not address:
        return []
    info = await _ask(f"http://{address}:{names.DASHBOARD_PORT}/api/jobs/", job)
    return [{"kind": SUBMISSION, "metadata": {"uid": SUBMISSION}, "info": info}] if info else []


async def _ask(url: str, job: Json) -> Json:
    import aiohttp

    from steelyard_common.connections import TrackingConnector

    job_id = read_status(job)["jobId"]
    try:
        async with aiohttp.ClientSession(
            connector=TrackingConnector(), timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS)
        ) as session:
            async with session.get(f"{url}{job_id}") as answer:
                if answer.status == 200:
                    info: Json = await answer.json()
                    return info
            if answer.status == 404 and job["spec"].get("submissionMode") == "HTTPMode":
                async with session.post(url, json=submission(job)) as posted:
                    if posted.status >= 400:
                        _log.warning("RayJob %s: %s", job["metadata"]["name"], await posted.text())
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        _log.info("RayJob %s: its head does not answer: %s", job["metadata"]["name"], error)
    return {}


def submission(job: Json) -> Json:
    """Return the body of a submission."""
    spec = job["spec"]
    fields = {
        "entrypoint": spec.get("entrypoint", ""),
        "submission_id": read_status(job)["jobId"],
        "runtime_env": runtime_environment(job),
        "metadata": mapping(spec, "metadata"),
        "entrypoint_num_cpus": spec.get("entrypointNumCpus"),
        "entrypoint_num_gpus": spec.get("entrypointNumGpus"),
        "entrypoint_resources": _resources(spec.get("entrypointResources") or "{}"),
    }
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _resources(text: str) -> Json:
    """Return the amounts that a RayJob gives as text; none where the text is something else."""
    try:
        amounts = json.loads(text)
    except ValueError:
        return {}
    return amounts if isinstance(amounts, dict) else {}
