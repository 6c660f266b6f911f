"""The panels of Ray clusters, Ray jobs, queues and the log of a job."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from steelyard.clusters.widgets.panel import Panel, Row

if TYPE_CHECKING:
    from steelyard.clusters.client import Client


def panel(
    client: "Client",
    namespace: str | None = None,
    *,
    token: str | Callable[[], str] | None = None,
    own_login: bool = False,
) -> Panel:
    """Return the panel of the Ray clusters. `token` and `own_login` log in to dashboards, as for `jobs.on`."""
    clusters = client.ray.clusters

    def rows() -> Sequence[Row]:
        return [
            (status.name, status.phase, f"{status.workers}/{status.wanted}", status.message or status.reason)
            for status in clusters.list(namespace)
        ]

    def details(name: str) -> str:
        status = clusters.status(name, namespace)
        return "\n".join(map(str, (status, *status.problems)))

    def dashboard(name: str) -> str:
        return clusters.dashboard(name, namespace) or "no Ingress and no Route leads to its dashboard"

    def jobs(name: str) -> str:
        submissions = client.ray.jobs.on(name, namespace, token=token, own_login=own_login).list()
        return "\n".join(f"{job.id}  {job.status}  {job.entrypoint}" for job in submissions) or "no jobs"

    def delete(name: str) -> str:
        clusters.delete(name, namespace)
        return f"{name} is deleted"

    actions = {"Details": details, "Dashboard": dashboard, "Jobs": jobs, "Delete": delete}
    return Panel("Ray clusters", ("NAME", "PHASE", "WORKERS", "WHY"), rows, actions)


def job_panel(client: "Client", namespace: str | None = None) -> Panel:
    """Return the panel of the Ray jobs."""
    jobs = client.ray.jobs

    def rows() -> Sequence[Row]:
        return [
            (status.name, status.phase, status.cluster, status.message) for status in jobs.list(namespace)
        ]

    def logs(name: str) -> str:
        return "\n".join(jobs.logs(name, namespace, tail=50)) or "nothing is written yet"

    def stop(name: str) -> str:
        return str(jobs.stop(name, namespace))

    def delete(name: str) -> str:
        jobs.delete(name, namespace)
        return f"{name} is deleted"

    actions = {"Logs": logs, "Stop": stop, "Delete": delete}
    return Panel("Ray jobs", ("NAME", "PHASE", "CLUSTER", "WHY"), rows, actions)


def queue_panel(client: "Client", namespace: str | None = None) -> Panel:
    """Return the panel of the queues."""

    def rows() -> Sequence[Row]:
        return [
            (view.owner or view.name, view.queue, view.state, view.why)
            for view in client.queues.workloads(namespace)
        ]

    return Panel("Queues", ("WORKLOAD OF", "QUEUE", "STATE", "WHY"), rows)


def job_logs(client: "Client", name: str, namespace: str | None = None, *, lines: int = 50) -> Panel:
    """Return the panel of a job's last lines."""

    def rows() -> Sequence[Row]:
        return [(line,) for line in client.ray.jobs.logs(name, namespace, tail=lines)]

    return Panel(f"Logs of {name}", ("LINE",), rows)
