"""Choice of the queue for a new object, by its policy; a queue is never left out in silence."""

import warnings
from collections.abc import Sequence

from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import BadConfig, Fault, Forbidden, Unsupported
from steelyard.clusters.kinds import LOCAL_QUEUE
from steelyard.clusters.queues.view import QueueView


class QueueWarning(UserWarning):
    """Something was sent although its queue is not as it should be."""


async def choose_queue(connection: Connection, queue: str | None, policy: str, namespace: str) -> str | None:
    """Return the LocalQueue to use; None where there is no Kueue, or the policy is `off`.

    Without a name it is the default queue of the namespace. Raises BadConfig (strict): the queue is not there, is
    stopped, or none is named and none is the default.
    """
    if policy == "off":
        return None
    try:
        queues = [QueueView(obj) for obj in await connection.list(LOCAL_QUEUE, namespace)]
    except Unsupported:
        if queue is None:
            return None  # a cluster without queues
        return _objection(queue, policy, "the cluster has no Kueue", keep=False)
    except Forbidden as error:
        if policy == "strict":
            raise
        warnings.warn(QueueWarning(f"the queue could not be checked: {error}"), stacklevel=2)
        return queue
    return _default(queues, policy) if queue is None else _find_named(queue, queues, policy, namespace)


def _default(queues: Sequence[QueueView], policy: str) -> str | None:
    default = next((view for view in queues if view.default), None)
    if default is not None or not queues:
        return default.name if default else None
    names = ", ".join(sorted(view.name for view in queues))
    message = (
        f"no queue is given, and no queue is the default; name one of {names}, or set queue_policy to 'off'"
    )
    return _objection(None, policy, message, keep=True)


def _find_named(queue: str, queues: Sequence[QueueView], policy: str, namespace: str) -> str | None:
    view = next((view for view in queues if view.name == queue), None)
    if view is None:
        names = ", ".join(sorted(view.name for view in queues))
        others = f"the queues are {names}" if names else "it has none"
        message = f"{queue}: there is no such queue in namespace {namespace}; {others}"
        return _objection(queue, policy, message, keep=True)
    return _objection(queue, policy, f"{queue}: {view.stopped}", keep=True) if view.stopped else queue


def _objection(queue: str | None, policy: str, message: str, *, keep: bool) -> str | None:
    if policy == "strict":
        raise BadConfig("", [Fault("queue", message)])
    warnings.warn(QueueWarning(message), stacklevel=3)
    return queue if keep else None
