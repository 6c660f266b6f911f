"""Training jobs from Python: submit, list, follow, wait, read logs and progress, stop, resume, delete.

    from pathlib import Path
    from steelyard.clusters import training
    from steelyard_kube.client import connect

    cluster = await connect(Path(".steelyard/kubeconfig"))
    job = await training.find(cluster, "digits", "default")
    async for event in training.follow(cluster, job):
        ...

Everything is a function over a `Cluster`; a job is a `JobView`, which reads the resource that it holds.
"""

from steelyard.clusters.training.errors import BadJob, JobDeleted, NoSuchJob, WaitedTooLong
from steelyard.clusters.training.following import Changed, PodsChanged, Warned, follow
from steelyard.clusters.training.frameworks import KNOWN, TrainingFramework
from steelyard.clusters.training.jobs import (
    delete,
    find,
    framework,
    list_jobs,
    pods,
    resume,
    stop,
    submit,
)
from steelyard.clusters.training.logs import Line, LogCluster, Tail, choose_pods, list_lines
from steelyard.clusters.training.manifest import JobRequest, Program, fresh_name, manifest
from steelyard.clusters.training.progress import Pace, Progress, newest, parse
from steelyard.clusters.training.records import FailureView, ReplicaView, ending
from steelyard.clusters.training.view import JobView
from steelyard.clusters.training.watching import changes, wait

__all__ = [
    "KNOWN",
    "BadJob",
    "Changed",
    "FailureView",
    "JobDeleted",
    "JobRequest",
    "JobView",
    "Line",
    "LogCluster",
    "NoSuchJob",
    "Pace",
    "PodsChanged",
    "Program",
    "Progress",
    "ReplicaView",
    "Tail",
    "TrainingFramework",
    "WaitedTooLong",
    "Warned",
    "changes",
    "choose_pods",
    "delete",
    "ending",
    "find",
    "follow",
    "framework",
    "fresh_name",
    "list_jobs",
    "list_lines",
    "manifest",
    "newest",
    "parse",
    "pods",
    "resume",
    "stop",
    "submit",
    "wait",
]
