"""Ended Pods of the node: the little that the kubelet remembers of each, in place of a worker, until it is deleted.

A worker holds its Pod's manifest, the runs of its containers and a task: of thousands of ended Pods that were most of
the process's memory. What else there is to know lies in the Pod's folder, as after a restart of the kubelet.
"""

from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting, is_later
from steelyard_kube.pods import is_terminal
from steelyard_kube.tables import shrunk


class EndedPods:
    """Pods whose end the API shows, and whose processes are gone."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[str, str]] = {}
        """Latest known resourceVersion, and the one that the watch sent last, by uid."""

    def add(self, uid: str, known: str, watched: str) -> None:
        """Remember a Pod whose worker has nothing to do any more."""
        self._versions[uid] = known, watched

    def remove(self, uid: str) -> bool:
        """Forget a Pod; return whether it was there."""
        known = self._versions.pop(uid, None)
        self._versions = shrunk(self._versions)
        return known is not None

    def __contains__(self, uid: str) -> bool:
        return uid in self._versions

    def concerns(self, pod: Json) -> bool:
        """Take a state of an ended Pod from the watch; return whether there is anything to do for it.

        A state that is not later than the watch's own last word comes from a server that was restored, and is the
        truth again; any other that is not later than the latest known was overtaken by the answer to a write.
        """
        uid, version = pod["metadata"]["uid"], str(pod["metadata"].get("resourceVersion", ""))
        known, watched = self._versions[uid]
        if not is_later(version, known) and is_later(version, watched):
            self._versions[uid] = known, version
            return False
        self._versions[uid] = version, version
        return is_deleting(pod) or not is_terminal(pod)
