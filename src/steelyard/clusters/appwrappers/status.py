"""Status of an AppWrapper: phase, reason, message, retries. A pure function; unknown phases are shown as they are."""

from dataclasses import dataclass, field

from steelyard.clusters.ray import names
from steelyard.clusters.reading import find_condition, number, part, text
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels

_EXPLAINING = ("Unhealthy", "PodsReady", "ResourcesDeployed", "QuotaReserved")


@dataclass(frozen=True)
class AppWrapperStatus:
    """The status of an AppWrapper; `resource` is the whole object."""

    name: str
    namespace: str
    phase: str
    """The controller's word: Suspended, Resuming, Running, Resetting, Suspending, Succeeded, Failed, Terminating."""
    reason: str = ""
    message: str = ""
    retries: int = 0
    queue: str = ""
    resource: Json = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        why = ": ".join(word for word in (self.reason, self.message) if word)
        retries = f", {self.retries} retries" if self.retries else ""
        return f"{self.name}: {self.phase}{retries}" + (f" ({why})" if why else "")


def app_wrapper_status(resource: Json) -> AppWrapperStatus:
    """Return the status; its reason is the first condition that explains why the AppWrapper does not run."""
    phase = text(resource, "status", "phase") or "Suspended"
    if text(resource, "metadata", "deletionTimestamp"):
        phase = "Terminating"
    elif phase in ("Resuming", "Running") and part(resource, "spec").get("suspend") is True:
        phase = "Suspending"  # its controller has not seen it yet
    reason, message = "", ""
    for type in _EXPLAINING:
        condition = find_condition(resource, type) or {}
        if condition.get("status") == ("True" if type == "Unhealthy" else "False"):
            reason, message = str(condition.get("reason") or type), str(condition.get("message") or "")
            break
    return AppWrapperStatus(
        text(resource, "metadata", "name"),
        text(resource, "metadata", "namespace"),
        phase,
        reason if phase not in ("Running", "Succeeded") else "",
        message if phase not in ("Running", "Succeeded") else "",
        number(resource, "status", "resettingCount"),
        read_labels(resource).get(names.QUEUE, ""),
        resource,
    )
