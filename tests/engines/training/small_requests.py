"""A plugin of pytest: containers of the published tests keep their limits, and ask the scheduler for less.

A limit alone is a request, too, and two replicas of a job ask for more than a machine of two processors has.
"""

from typing import Any

from kubernetes import client

REQUESTS = {"cpu": "10m", "memory": "64Mi"}


class SmallRequests(client.V1ResourceRequirements):  # type: ignore[misc]
    """The published limits, with small requests beside them."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**({"requests": REQUESTS} if "limits" in fields else {}) | fields)


client.V1ResourceRequirements = SmallRequests
