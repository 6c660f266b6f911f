"""The group `client.ray`: clusters and jobs of Ray."""

from steelyard.clusters.blocking import LoopThread
from steelyard.clusters.connection import Connection
from steelyard.clusters.ray.clusters import AsyncClusters, Clusters
from steelyard.clusters.ray.jobs import AsyncJobs, Jobs


class AsyncRay:
    """Ray on a cluster."""

    def __init__(self, connection: Connection) -> None:
        self.clusters = AsyncClusters(connection)
        self.jobs = AsyncJobs(connection)


class Ray:
    """Ray on a cluster."""

    def __init__(self, ray: AsyncRay, thread: LoopThread) -> None:
        self.clusters = Clusters(ray.clusters, thread)
        self.jobs = Jobs(ray.jobs, thread)
