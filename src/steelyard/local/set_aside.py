"""Tells of objects that are set aside, on the objects themselves, and forgets those that are gone or released."""

from collections.abc import Callable
from datetime import datetime

from steelyard.local.at_work import SET_ASIDE, AtWork, Mark
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.events import EventRecorder
from steelyard_kube.resource import resource_of


async def tell_set_aside(cluster: Cluster, at_work: AtWork, now: Callable[[], datetime]) -> None:
    """Record an event on each object that is set aside; `kubectl describe` shows it."""
    events = EventRecorder(cluster, component="steelyard-kubernetes", now=now)
    for mark in list(at_work.set_aside):
        try:
            resource = resource_of({"apiVersion": mark.api_version, "kind": mark.kind})
            obj = await cluster.get(resource, mark.name, mark.namespace or None)
        except NotFound:
            at_work.release(mark)
        except (KeyError, ApiError):
            continue
        else:
            if Mark.from_object(resource, obj) != mark:
                at_work.release(mark)
            else:
                events.record(obj, "Warning", SET_ASIDE, mark.message)
    await events.flush()
