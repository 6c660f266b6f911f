"""Behaviours that codeflare-sdk's own end-to-end tests check where there is no OpenShift, in its release's environment.

The package does not carry these tests; this module checks the same behaviours. It runs after `session.py` on the same
machine: `python -m tests.engines.ray.published KUBECONFIG`. Each step is printed.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import codeflare_sdk as sdk

from kubernetes import client, config
from tests.engines.ray import encrypted
from tests.engines.ray.encrypted import PATIENT, PROGRAM_THAT_GROWS, Small
from tests.engines.ray.session import NAMESPACE, SECONDS, SIZES, check, wait_for

EXCEPTIONS = {
    "the dashboard is at cluster_dashboard_uri": "there is no Ingress: docs/ray.md names the head's address",
    "Ray's clients connect to local_client_url": "there is no Ingress: docs/ray.md names the head's address",
    "clusters of two flavors are on two nodes": "one machine is one node",
}
"""Behaviours of the published tests that one machine does not have, each with its reason."""
APPLIED, GROWING, QUEUES = "applied", "growing", ("first", "second")
ENTRYPOINT = "python program.py"
PROGRAM = """
import os
import ray
ray.init()
print("greeting", os.environ["GREETING"], "nodes", len(ray.nodes()))
"""


def check_exception(behaviour: str, holds: bool) -> None:
    """Fail where a listed behaviour is there, so that the list is shortened."""
    if holds:
        raise AssertionError(f"{behaviour!r} is listed as an exception, and holds: {EXCEPTIONS[behaviour]}")
    print(f"not here: {behaviour}: {EXCEPTIONS[behaviour]}", flush=True)


def until(actual: Callable[[], object], wanted: object) -> None:
    """Wait until something is as wanted."""
    end = time.monotonic() + SECONDS
    while (value := actual()) != wanted and time.monotonic() < end:
        time.sleep(1)
    check(value, wanted)


def pods(name: str, kind: str) -> list[Any]:
    """Return the Pods of a cluster's head or workers that are not being deleted."""
    chosen = f"ray.io/cluster={name},ray.io/node-type={kind}"
    listed = client.CoreV1Api().list_namespaced_pod(NAMESPACE, label_selector=chosen).items
    return [pod for pod in listed if not pod.metadata.deletion_timestamp]


def configuration(name: str, **fields: object) -> Any:
    return sdk.ClusterConfiguration(name=name, namespace=NAMESPACE, envs=PATIENT, **SIZES, **fields)


def submit(name: str) -> str:
    """Submit the program with its folder to the cluster; return its output, once it has succeeded and is deleted."""
    jobs = sdk.RayJobClient(address=f"http://{pods(name, 'head')[0].status.pod_ip}:8265")
    with tempfile.TemporaryDirectory(prefix="steelyard-ray-") as folder:
        Path(folder, "program.py").write_text(PROGRAM)
        environment = {"working_dir": folder, "env_vars": {"GREETING": "hello"}}
        id = jobs.submit_job(entrypoint=ENTRYPOINT, runtime_env=environment)
        until(lambda: jobs.get_job_status(id).is_terminal(), True)
        printed = str(jobs.get_job_logs(id))
        if (status := str(jobs.get_job_status(id).value)) != "SUCCEEDED":
            raise AssertionError(f"{status}: {printed}")
    check(jobs.delete_job(id)[0], True)
    check([job.submission_id for job in jobs.list_jobs() if job.submission_id == id], [])
    return printed


def counted_nodes(name: str, program: str) -> str:
    """Run a program with a client of Ray's beside the cluster; return the nodes that it counts."""
    (head,) = pods(name, "head")
    address = f"ray://{head.status.pod_ip}:10001"
    return encrypted.nodes(client.CoreV1Api(), head.metadata.name, address, None, program)


def replicas(custom: client.CustomObjectsApi, name: str) -> Iterator[int]:
    """Yield the replicas of each group of workers; none where there is no such cluster."""
    for cluster in custom.list_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters")["items"]:
        if cluster["metadata"]["name"] == name:
            yield from (group["replicas"] for group in cluster["spec"]["workerGroupSpecs"])


def applied_again(custom: client.CustomObjectsApi) -> None:
    """A cluster follows changes that are applied to it; programs, a client of Ray's and a RayJob run on it."""
    made = sdk.Cluster(configuration(APPLIED, num_workers=1))
    made.apply(timeout=1)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(list(replicas(custom, APPLIED)), [1])
    made.config = configuration(APPLIED, num_workers=2)
    made.apply(timeout=1)
    check(list(replicas(custom, APPLIED)), [2])
    until(lambda: sum(pod.status.phase == "Running" for pod in pods(APPLIED, "worker")), 2)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(made.status(print_to_console=False)[0].name, "READY")
    check("greeting hello nodes 3" in submit(APPLIED), True)
    check(counted_nodes(APPLIED, encrypted.PROGRAM), "3")
    with tempfile.TemporaryDirectory(prefix="steelyard-ray-") as folder:
        Path(folder, "program.py").write_text(PROGRAM)
        environment = {"working_dir": folder, "env_vars": {"GREETING": "hello"}}
        job = sdk.RayJob(
            job_name="files",
            cluster_name=APPLIED,
            namespace=NAMESPACE,
            entrypoint=ENTRYPOINT,
            runtime_env=environment,
        )
        check(job.submit(), "files")
    wait_for(job)
    check_exception("the dashboard is at cluster_dashboard_uri", "http" in made.cluster_dashboard_uri())
    check_exception("Ray's clients connect to local_client_url", made.local_client_url() != "ray://None")
    made.down()
    until(lambda: list(replicas(custom, APPLIED)), [])


class Growing(Small):
    """A cluster whose autoscaler does not wait a minute before it takes away a worker without work."""

    def create_resource(self) -> dict[str, Any]:
        resource = super().create_resource()
        resource["spec"]["autoscalerOptions"]["idleTimeoutSeconds"] = 5
        return resource


def grows_and_shrinks() -> None:
    """A worker comes for work that needs it, and goes when the work has ended."""
    made = Growing(configuration(GROWING, enable_autoscaling=True, min_workers=1, max_workers=2))
    made.apply(timeout=1)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(len(pods(GROWING, "worker")), 1)
    check(counted_nodes(GROWING, PROGRAM_THAT_GROWS), "3")
    until(lambda: len(pods(GROWING, "worker")), 1)
    made.down()


def queues_by_flavor(custom: client.CustomObjectsApi) -> None:
    """The queues of a flavor are found by its name."""
    group, version = "kueue.x-k8s.io", "v1beta1"
    for name in QUEUES:
        quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        head = {"apiVersion": f"{group}/{version}", "metadata": {"name": name}}
        custom.create_cluster_custom_object(
            group, version, "resourceflavors", {**head, "kind": "ResourceFlavor", "spec": {}}
        )
        spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups}
        custom.create_cluster_custom_object(
            group, version, "clusterqueues", {**head, "kind": "ClusterQueue", "spec": spec}
        )
        spec = {"clusterQueue": name}
        custom.create_namespaced_custom_object(
            group, version, NAMESPACE, "localqueues", {**head, "kind": "LocalQueue", "spec": spec}
        )

    def queues(flavor: str) -> list[str]:
        return [queue["name"] for queue in sdk.list_local_queues(NAMESPACE, flavors=[flavor])]

    for name in QUEUES:
        until(lambda name=name: queues(name), [name])  # type: ignore[misc]
    machine = client.CoreV1Api().list_node().items
    check_exception("clusters of two flavors are on two nodes", len(machine) > 1)


def main() -> None:
    config.load_kube_config(sys.argv[1])
    api = client.ApiClient()
    sdk.set_api_client(api)
    custom = client.CustomObjectsApi(api)
    queues_by_flavor(custom)
    applied_again(custom)
    grows_and_shrinks()


if __name__ == "__main__":
    main()
