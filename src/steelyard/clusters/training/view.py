"""A training job as a person asks about it: where it stands, what its replicas do, why it failed."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property

from steelyard.clusters.training.names import OUTPUT_MODEL, PROGRAM
from steelyard.clusters.training.records import (
    FailureView,
    ReplicaView,
    failure_of_status,
    replica_of_status,
    time_of,
)
from steelyard.kube.resource import Json, Resource, resource_of

SPECS = re.compile("ReplicaSpecs$|^roles$")
"""What the fields with the replica types are called, of all kinds."""


class JobView:
    """Reads a job of any kind; nothing is asked of the cluster."""

    def __init__(self, resource: Json) -> None:
        self.resource = resource
        self._status: Json = resource.get("status") or {}

    @property
    def kind(self) -> str:
        return str(self.resource["kind"])

    @property
    def name(self) -> str:
        return str(self.resource["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.resource["metadata"].get("namespace") or "default")

    @property
    def uid(self) -> str:
        return str(self.resource["metadata"].get("uid", ""))

    @property
    def type(self) -> Resource:
        return resource_of(self.resource)

    @property
    def framework(self) -> str:
        """`PyTorch` of a PyTorchJob; a DLJob says it itself."""
        spec = self.resource.get("spec") or {}
        return str(spec.get("framework") or "") or self.kind.removesuffix("Job")

    @property
    def program(self) -> str:
        return str((self.resource["metadata"].get("annotations") or {}).get(PROGRAM, ""))

    @cached_property
    def conditions(self) -> tuple[Json, ...]:
        """Ordered by last change."""
        return tuple(self._status.get("conditions") or ())

    def holds(self, type: str) -> bool:
        return any(each["type"] == type and each["status"] == "True" for each in self.conditions)

    @property
    def state(self) -> str:
        """Failed, Succeeded, Suspended, Restarting, Running, Created; New before the operator saw it."""
        for type in ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created"):
            if self.holds(type):
                return type
        return "New"

    @property
    def finished(self) -> bool:
        return self.state in {"Failed", "Succeeded"}

    @property
    def message(self) -> str:
        """What the operator says of the state."""
        return next(
            (str(each.get("message") or "") for each in self.conditions if each["type"] == self.state), ""
        )

    @property
    def suspended(self) -> bool:
        """Whether it is meant to be stopped."""
        return bool(((self.resource.get("spec") or {}).get("runPolicy") or {}).get("suspend"))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Replicas wanted, by type; what the job leaves to its framework is seen in the status, and 1 before that."""
        spec = self.resource.get("spec") or {}
        roles: Mapping[str, Json] = next(
            (spec[each] for each in spec if SPECS.search(each) and spec[each]), {}
        )
        seen = Counter(str(each["type"]) for each in self._status.get("replicas") or ())
        usual = {role: seen[role] if seen else 1 for role in roles}
        return {
            role: usual[role] if each.get("replicas") is None else int(each["replicas"])
            for role, each in roles.items()
        }

    @cached_property
    def replicas(self) -> tuple[ReplicaView, ...]:
        """Every replica, also those of which the operator has said nothing yet."""
        known = {each.name: each for each in map(replica_of_status, self._status.get("replicas") or ())}
        wanted = (ReplicaView(role, index) for role, n in self.counts.items() for index in range(n))
        return tuple({each.name: known.get(each.name, each) for each in wanted}.values())

    @property
    def running(self) -> int:
        return sum(each.phase == "Running" for each in self.replicas)

    @property
    def succeeded(self) -> int:
        return sum(each.phase == "Succeeded" for each in self.replicas)

    @property
    def restarts(self) -> int:
        """That count against the limit."""
        return int(self._status.get("restarts") or 0)

    @property
    def disruptions(self) -> int:
        return int(self._status.get("disruptions") or 0)

    @cached_property
    def failures(self) -> tuple[FailureView, ...]:
        return tuple(map(failure_of_status, self._status.get("failures") or ()))

    @property
    def cause(self) -> FailureView | None:
        """The failure that a failed job owes its end to; None where it ended for another reason, such as a deadline."""
        final = [each for each in self.failures if each.action == "Fail"]
        if final:
            return final[0]
        return self.failures[-1] if self.failures and "backoff limit" in self.message else None

    @property
    def exit_code(self) -> int:
        """As a program would have ended: 0, the exit code of the replica that failed, or 1."""
        if self.state == "Succeeded":
            return 0
        code = self.cause.exit_code if self.cause else None
        return code if code is not None and 0 < code < 256 else 1

    @property
    def results(self) -> Json:
        """What the program said came of it."""
        return dict(self._status.get("results") or {})

    @property
    def outputs(self) -> Json:
        return dict(self._status.get("outputs") or {})

    @property
    def output_model(self) -> str:
        """The name of the Model that its output becomes; empty where it promises none."""
        annotations = self.resource["metadata"].get("annotations") or {}
        said = ((self.resource.get("spec") or {}).get("outputs") or {}).get("model") or {}
        return str(said.get("name") or annotations.get(OUTPUT_MODEL) or "")

    @property
    def output_settled(self) -> bool:
        """Whether the operator has done with the output what it does: it is kept, or that has failed."""
        return self.outputs.get("state") in {"Registered", "Carried", "Failed"}

    @property
    def created(self) -> datetime | None:
        return time_of(self.resource["metadata"].get("creationTimestamp"))

    @property
    def started(self) -> datetime | None:
        return time_of(self._status.get("startTime"))

    @property
    def completed(self) -> datetime | None:
        return time_of(self._status.get("completionTime"))

    @property
    def restart_at(self) -> datetime | None:
        """When the replicas are made again: the operator waits longer after each failure."""
        return time_of(self._status.get("restartAt"))
