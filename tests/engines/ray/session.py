"""One session of codeflare-sdk on the embedded Kubernetes: a queue, a cluster, jobs on it and with their own.

It runs in the client's own environment: `python -m tests.engines.ray.session KUBECONFIG`. Each step is printed.
"""

import shlex
import sys
import time
from typing import Any

import codeflare_sdk as sdk

from kubernetes import client, config

NAMESPACE, QUEUE = "default", "team"
SECONDS = 700
SIZES: dict[str, Any] = {
    "head_cpu_requests": "100m",
    "head_cpu_limits": 1,
    "head_memory_requests": 1,
    "head_memory_limits": 2,
    "worker_cpu_requests": "100m",
    "worker_cpu_limits": 1,
    "worker_memory_requests": 1,
    "worker_memory_limits": 1,
}
PROGRAM = "python -c 'import ray; ray.init(); print(len(ray.nodes()))'"


def check(actual: object, wanted: object) -> None:
    if actual != wanted:
        raise AssertionError(f"{actual!r} is not {wanted!r}")
    print(f"{time.monotonic():.0f} {actual}", flush=True)


def make_queue(custom: client.CustomObjectsApi) -> None:
    """Make a queue that has room for one cluster of the session at a time."""
    group, version = "kueue.x-k8s.io", "v1beta1"

    def obj(kind: str, name: str, **spec: object) -> dict[str, Any]:
        head = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}}
        return {**head, "spec": spec}

    limits = [{"name": "cpu", "nominalQuota": "300m"}, {"name": "memory", "nominalQuota": "8Gi"}]
    flavors = [{"name": "machine", "resources": limits}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
    custom.create_cluster_custom_object(group, version, "resourceflavors", obj("ResourceFlavor", "machine"))
    cluster_queue = obj("ClusterQueue", "all", namespaceSelector={}, resourceGroups=groups)
    custom.create_cluster_custom_object(group, version, "clusterqueues", cluster_queue)
    local = obj("LocalQueue", QUEUE, clusterQueue="all")
    custom.create_namespaced_custom_object(group, version, NAMESPACE, "localqueues", local)


def wait_for(job: Any) -> None:
    """Wait for the end of a job, and check that it is a success."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        status, _ = job.status(print_to_console=False)
        if status.name in ("COMPLETE", "FAILED"):
            check(status.name, "COMPLETE")
            return
        time.sleep(1)
    raise AssertionError(f"{job.name} has not ended")


def cluster_and_job(custom: client.CustomObjectsApi) -> None:
    made = sdk.Cluster(
        sdk.ClusterConfiguration(name="demo", namespace=NAMESPACE, num_workers=2, local_queue=QUEUE, **SIZES)
    )
    made.apply(timeout=1)
    # A second one stands in line behind it.
    other = sdk.Cluster(
        sdk.ClusterConfiguration(name="other", namespace=NAMESPACE, num_workers=1, local_queue=QUEUE, **SIZES)
    )
    other.apply(timeout=1)
    made.wait_ready(timeout=SECONDS, dashboard_check=False)
    check(made.status(print_to_console=False)[0].name, "READY")
    details = made.details(print_to_console=False)
    check((details.name, details.num_workers, details.status.value), ("demo", 2, "ready"))
    check(made.cluster_uri(), "ray://demo-head-svc.default.svc:10001")
    states = {cluster.name: cluster.status.value for cluster in sdk.list_all_clusters(NAMESPACE, False)}
    check(states, {"demo": "ready", "other": "suspended"})
    check([cluster.name for cluster in sdk.list_all_queued(NAMESPACE, False)], ["other"])
    check(sdk.get_cluster("demo", NAMESPACE).config.num_workers, 2)
    job = sdk.RayJob(job_name="onit", cluster_name="demo", namespace=NAMESPACE, entrypoint=PROGRAM)
    check(job.submit(), "onit")
    wait_for(job)
    # No Ingress of one machine leads there: the head's own address is what docs/ray.md names instead.
    head = custom.get_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters", "demo")["status"][
        "head"
    ]
    listed = sdk.RayJobClient(address=f"http://{head['podIP']}:8265").list_jobs()
    # Releases of Ray quote a program's words in ways of their own.
    words = [shlex.split(entry.entrypoint) for entry in listed if entry.submission_id]
    check(words, [shlex.split(PROGRAM)])
    check("http://" in str(made.cluster_dashboard_uri()), False)
    other.down()
    made.down()


def job_with_a_cluster() -> None:
    # Releases from 0.40 on have one class of configurations.
    kind = sdk.ClusterConfiguration if hasattr(sdk, "Codeflare") else sdk.ManagedClusterConfig
    config_of_cluster = kind(num_workers=1, **SIZES)
    job = sdk.RayJob(
        job_name="own",
        cluster_config=config_of_cluster,
        namespace=NAMESPACE,
        entrypoint=PROGRAM,
        local_queue=QUEUE,
    )
    check(job.submit(), "own")
    wait_for(job)
    job.delete()


def main() -> None:
    config.load_kube_config(sys.argv[1])
    api = client.ApiClient()
    sdk.set_api_client(api)
    custom = client.CustomObjectsApi(api)
    make_queue(custom)
    check([queue["name"] for queue in sdk.list_local_queues(NAMESPACE)], [QUEUE])
    cluster_and_job(custom)
    job_with_a_cluster()


if __name__ == "__main__":
    main()
