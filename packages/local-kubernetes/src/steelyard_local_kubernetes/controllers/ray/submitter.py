"""The Job that submits a RayJob's program to the head, and follows its log."""

import json
import shlex
from copy import deepcopy

import yaml

from steelyard_common.bounded_yaml import load
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.controllers.pods import owner_reference

CONTAINER = "ray-job-submitter"


def submitter_job(job: Json, cluster: Json, labels: Json) -> Json:
    spec = job["spec"]
    template = submitter_template(spec, mapping(cluster, "spec"))
    pod = template.setdefault("spec", {})
    pod.setdefault("restartPolicy", "Never")
    container = pod["containers"][0]
    if not sequence(container, "command"):
        container["command"] = ["/bin/bash", "-ce", "--"]
        container["args"] = [command(job)]
    variables = {
        "PYTHONUNBUFFERED": "1",
        "RAY_DASHBOARD_ADDRESS": read_status(job)["dashboardURL"],
        "RAY_JOB_SUBMISSION_ID": read_status(job)["jobId"],
    }
    added = [{"name": name, "value": value} for name, value in variables.items()]
    container["env"] = [*added, *sequence(container, "env")]
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**mapping(metadata, "labels"), **labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job["metadata"]["name"],
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "backoffLimit": mapping(spec, "submitterConfig").get("backoffLimit", 2),
            "template": template,
        },
    }


def submitter_template(spec: Json, cluster: Json) -> Json:
    """Return the Pod of the submitter of a RayJob's `spec`, on a cluster with the specification `cluster`.

    A job without a template gets one with the head's image and few resources: on one machine a fifth of the processor
    that KubeRay requests for it.
    """
    if template := deepcopy(mapping(spec, "submitterPodTemplate")):
        return template
    containers = sequence(mapping(cluster, "headGroupSpec", "template", "spec"), "containers")
    head = containers[0] if containers else {}
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": CONTAINER, "image": head.get("image", ""), "resources": resources}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def command(job: Json) -> str:
    """Return the shell's program: submit once, also where the Pod is begun again, then follow the log to its end."""
    spec, job_id = job["spec"], shlex.quote(read_status(job)["jobId"])
    address = f"http://{read_status(job)['dashboardURL']}"
    options = [f"--address {address}", "--no-wait", f"--submission-id {job_id}"]
    environment = runtime_environment(job)
    if environment:
        options.append(f"--runtime-env-json {shlex.quote(json.dumps(environment))}")
    if mapping(spec, "metadata"):
        options.append(f"--metadata-json {shlex.quote(json.dumps(mapping(spec, 'metadata')))}")
    for field, option in (("entrypointNumCpus", "num-cpus"), ("entrypointNumGpus", "num-gpus")):
        if spec.get(field):
            options.append(f"--entrypoint-{option} {spec[field]}")
    if spec.get("entrypointResources"):
        options.append(f"--entrypoint-resources {shlex.quote(spec['entrypointResources'])}")
    status = f"ray job status --address {address} {job_id} >/dev/null 2>&1"
    submit = f"ray job submit {' '.join(options)} -- {spec['entrypoint']}"
    return f"if ! {status} ; then {submit} ; fi ; ray job logs --address {address} --follow {job_id}"


def runtime_environment(job: Json) -> Json:
    """Return the runtime environment of the job; empty where it gives none that can be read."""
    try:
        content = load(job["spec"].get("runtimeEnvYAML") or "")
    except (yaml.YAMLError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
