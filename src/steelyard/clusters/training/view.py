"""A training job as a person asks about it: where it stands, what its replicas do, why it failed."""

import re
from collections import Counter
from datetime import datetime
from functools import cached_property

from steelyard.clusters.names import MAX_REPLICAS, OUTPUT_MODEL, PROGRAM
from steelyard.clusters.training.records import FailureView, ReplicaView, failure_of_status, replica_of_status
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_status
from steelyard_kube.resource import Resource, find_resource
from steelyard_kube.times import parse_optional_time

SPECS = re.compile("ReplicaSpecs$|^roles$")
"""Names of the fields that hold the replica types, of all kinds."""


def _object(value: object) -> Json:
    """A field of a spec, or nothing: one job that is written wrongly does not end a list of all."""
    return value if isinstance(value, dict) else {}


class JobView:
    """Reads a job of any kind; nothing is asked of the cluster."""

    def __init__(self, resource: Json) -> None:
        self.resource = resource
        self._spec = _object(resource.get("spec"))
        self._status: Json = read_status(resource)

    def __repr__(self) -> str:
        return f"JobView(kind={self.kind!r}, name={self.name!r}, namespace={self.namespace!r})"

    def __str__(self) -> str:
        return f"{self.name}: {self.state}" + (f" ({self.message})" if self.message else "")

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
        return find_resource(self.resource)

    @property
    def framework(self) -> str:
        """`PyTorch` of a PyTorchJob; a DLJob says it itself."""
        return str(self._spec.get("framework") or "") or self.kind.removesuffix("Job")

    @property
    def program(self) -> str:
        return str(read_annotations(self.resource).get(PROGRAM, ""))

    @cached_property
    def conditions(self) -> tuple[Json, ...]:
        """Ordered by last change."""
        return tuple(sequence(self._status, "conditions"))

    def holds(self, type: str) -> bool:
        return any(
            condition["type"] == type and condition["status"] == "True" for condition in self.conditions
        )

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
        """The operator's message about the state."""
        return next(
            (
                str(condition.get("message") or "")
                for condition in self.conditions
                if condition["type"] == self.state
            ),
            "",
        )

    @property
    def suspended(self) -> bool:
        """Return whether the job is meant to be stopped."""
        return bool(_object(self._spec.get("runPolicy")).get("suspend"))

    @property
    def backoff_limit(self) -> int | None:
        """Restarts that the job says it may have."""
        limit = _object(self._spec.get("runPolicy")).get("backoffLimit")
        return limit if isinstance(limit, int) else None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Desired number of replicas by type; a number that the job leaves to its framework comes from the status, and
        is 1 before that."""
        fields = (_object(value) for name, value in self._spec.items() if SPECS.search(name))
        roles = next(filter(None, fields), {})
        counts = Counter(str(replica["type"]) for replica in sequence(self._status, "replicas"))
        usual = {role: counts[role] if counts else 1 for role in roles}
        return {
            role: usual[role]
            if (given := _object(spec).get("replicas")) is None
            else (given if isinstance(given, int) and 0 <= given <= MAX_REPLICAS else 0)
            for role, spec in roles.items()
        }

    @cached_property
    def replicas(self) -> tuple[ReplicaView, ...]:
        """Every replica, also those that the operator has not reported yet."""
        known = {
            replica.name: replica for replica in map(replica_of_status, sequence(self._status, "replicas"))
        }
        views = (ReplicaView(role, index) for role, n in self.counts.items() for index in range(n))
        return tuple({replica.name: known.get(replica.name, replica) for replica in views}.values())

    @property
    def running(self) -> int:
        return sum(replica.phase == "Running" for replica in self.replicas)

    @property
    def succeeded(self) -> int:
        return sum(replica.phase == "Succeeded" for replica in self.replicas)

    @property
    def restarts(self) -> int:
        """Number of restarts that count against the limit."""
        return int(self._status.get("restarts") or 0)

    @property
    def disruptions(self) -> int:
        return int(self._status.get("disruptions") or 0)

    @cached_property
    def failures(self) -> tuple[FailureView, ...]:
        return tuple(map(failure_of_status, sequence(self._status, "failures")))

    @property
    def cause(self) -> FailureView | None:
        """The failure that a failed job owes its end to; None where it ended for another reason, such as a deadline."""
        final = [failure for failure in self.failures if failure.action == "Fail"]
        if final:
            return final[0]
        return self.failures[-1] if self.failures and "backoff limit" in self.message else None

    @property
    def exit_code(self) -> int:
        """The exit status for a program: 0, the exit code of the replica that failed, or 1."""
        if self.state == "Succeeded":
            return 0
        code = self.cause.exit_code if self.cause else None
        return code if code is not None and 0 < code < 256 else 1

    @property
    def results(self) -> Json:
        """The results that the program reported."""
        return dict(mapping(self._status, "results"))

    @property
    def outputs(self) -> Json:
        return dict(mapping(self._status, "outputs"))

    @property
    def output_model(self) -> str:
        """The name of the Model that its output becomes; empty where it promises none."""
        annotations = read_annotations(self.resource)
        said = _object(_object(self._spec.get("outputs")).get("model"))
        return str(said.get("name") or annotations.get(OUTPUT_MODEL) or "")

    @property
    def output_settled(self) -> bool:
        """Return whether the operator has kept the output, or has failed to."""
        return self.outputs.get("state") in {"Registered", "Carried", "Failed"}

    @property
    def created(self) -> datetime | None:
        return parse_optional_time(self.resource["metadata"].get("creationTimestamp"))

    @property
    def started(self) -> datetime | None:
        return parse_optional_time(self._status.get("startTime"))

    @property
    def completed(self) -> datetime | None:
        return parse_optional_time(self._status.get("completionTime"))

    @property
    def restart_at(self) -> datetime | None:
        """The time at which replicas are made again; the operator waits longer after each failure."""
        return parse_optional_time(self._status.get("restartAt"))
