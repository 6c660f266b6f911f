"""Kueue's queues and workloads as a user of a namespace sees them."""

from steelyard.clusters.queues.queues import AsyncQueues, Queues
from steelyard.clusters.queues.view import QueuePosition, QueueView, WorkloadView

__all__ = ["AsyncQueues", "QueuePosition", "QueueView", "Queues", "WorkloadView"]
