"""One Pod's object in the API: its newest known state, and what the kubelet writes to it.

The Pod's worker passes on what the watch reports, and asks for each write. Answers to writes and events of the watch
may arrive in any order.
"""

import contextlib
from collections.abc import Callable

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import Conflict, NotFound
from steelyard_kube.objects import is_later
from steelyard_kube.resource import PODS


class PodObject:
    """Newest known state of a Pod in the API, and the writes to it.

    `wake` is called when there may be something to do; `metadata_changed` with a Pod whose labels or annotations
    are others than before.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: Json,
        wake: Callable[[], None],
        metadata_changed: Callable[[Json], None],
    ) -> None:
        self.newest, self.gone = pod, False
        self.uid: str = pod["metadata"]["uid"]
        self._cluster, self._wake, self._metadata_changed = cluster, wake, metadata_changed
        self._watched = _version(pod)  # the version that the watch reported last
        self._written: Json | None = None  # the status that was written last

    @property
    def versions(self) -> tuple[str, str]:
        """The newest known resourceVersion, and the one that the watch reported last."""
        return _version(self.newest), self._watched

    def take_state(self, pod: Json) -> None:
        """Take the state that the watch reports, unless an answer to a write has shown a later one already.

        A state that is not later than the watch's previous one comes from a server that was restored, and is the
        truth again.
        """
        version, watched = _version(pod), self._watched
        self._watched = version
        if is_later(version, _version(self.newest)) or not is_later(version, watched):
            self._take(pod)
            self._wake()

    def note_removal(self) -> None:
        """Note that the API has no such Pod any more."""
        self.gone = True
        self._wake()

    async def annotate(self, annotations: dict[str, str]) -> bool:
        """Write annotations; return False where the Pod is gone or another Pod has its name."""
        with contextlib.suppress(NotFound, Conflict):
            await self._patch({"metadata": {"uid": self.uid, "annotations": annotations}})
            return True
        return False

    async def write_status(self, status: Json) -> None:
        """Write the Pod's status if it differs from the one that was written last."""
        if status == self._written:
            return
        try:
            await self._patch({"metadata": {"uid": self.uid}, "status": status}, subresource="status")
        except (NotFound, Conflict):
            # The patch names this Pod's uid: the name is free or another Pod's
            # by now, whatever the informer still shows.
            self.note_removal()
        else:
            self._written = status

    async def confirm_deletion(self) -> None:
        """Delete the object: nothing of the Pod runs any more."""
        metadata = self.newest["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await self._cluster.delete(
                PODS, metadata["name"], metadata["namespace"], uid=self.uid, grace_seconds=0
            )
        self.note_removal()

    async def _patch(self, patch: Json, subresource: str = "") -> None:
        """Send a patch that names the uid: a Pod made again under the same name must not get this one's state."""
        metadata = self.newest["metadata"]
        self._on_answer(
            await self._cluster.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource=subresource
            )
        )

    def _on_answer(self, pod: Json) -> None:
        """Take the API's answer to a write, unless the watch was faster and has reported a later state."""
        if is_later(_version(pod), _version(self.newest)):
            # The watch's event of what others have written meanwhile is not newer than this answer, and wakes no
            # worker.
            if _parts_of_others(pod) != _parts_of_others(self.newest):
                self._wake()
            self._take(pod)

    def _take(self, pod: Json) -> None:
        old, new = self.newest["metadata"], pod["metadata"]
        if any(old.get(key) != new.get(key) for key in ("labels", "annotations")):
            self._metadata_changed(pod)
        self.newest = pod


def _version(pod: Json) -> str:
    """The resourceVersion; empty for the manifest of a Pod that is gone from the API."""
    return str(pod["metadata"].get("resourceVersion", ""))


def _parts_of_others(pod: Json) -> tuple[Json, Json]:
    """Return the parts of a Pod that the kubelet's own writes leave as they are."""
    metadata = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
    return metadata, pod["spec"]
