"""Volumes of one Pod that show objects of the API, and its tokens; the Pod's worker keeps both up to date."""

import asyncio
import math
import shutil
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.kubelet import tokens, volumes
from steelyard_local_kubernetes.kubelet.env import ConfigMissing, has_secret_variables
from steelyard_local_kubernetes.kubelet.preparation import RunPreparer, fetch_volume_objects
from steelyard_local_kubernetes.kubelet.records import PodFolder, Sandbox

RETRY_SECONDS = 1.0


class ShownVolumes:
    """Keeper of what one Pod's running containers see of the API."""

    def __init__(
        self, cluster: Cluster, events: EventRecorder, folder: PodFolder, preparer: RunPreparer
    ) -> None:
        self._cluster, self._events, self._folder, self._preparer = cluster, events, folder, preparer
        self.are_stale = False  # what they show may have changed
        self._with_account: Json | None = None  # the Pod with the volume of its token
        self._renew_at = 0.0  # when its tokens are checked again, in seconds since the epoch

    def metadata_changed(self, pod: Json) -> None:
        """Note that labels or annotations have changed, which volumes may show."""
        self.are_stale |= volumes.shows_metadata(pod)

    async def with_account(self, pod: Json) -> Json:
        """Return the Pod with the volume of its account's token, for the start of a container."""
        self._with_account = await tokens.with_account(self._cluster, pod)
        return self._with_account

    async def renew_tokens(self, pod: Json, now: datetime) -> float | None:
        """Renew the tokens of running containers; return the seconds until the next check."""
        moment = now.timestamp()
        if moment >= self._renew_at:
            # None where an earlier kubelet started the containers.
            with_account = self._with_account or await self.with_account(pod)
            pause = await tokens.renew(self._cluster, with_account, self._folder, moment)
            self._renew_at = math.inf if pause is None else moment + pause
        return self._renew_at - moment if 0 < self._renew_at < math.inf else None

    async def remove_secrets(self, pod: Json) -> None:
        """Remove the volumes with Secrets and tokens of a Pod that has ended, and the variables with Secrets.

        A cluster unmounts them then; what stays for inspection is the log, and no value.
        """
        if any(has_secret_variables(container) for container in list_containers(pod["spec"])):
            await asyncio.to_thread(self._folder.forget_variables)
        named = {volume["name"]: volume for volume in sequence(pod["spec"], "volumes")}
        # Also the volume of the account's token, which no manifest names: an earlier kubelet may have made it.
        for name, volume in {tokens.VOLUME: tokens.automatic_volume(), **named}.items():
            folder = self._folder.volume(pod, name)
            if volumes.holds_secrets(volume) and folder.exists():
                await asyncio.to_thread(shutil.rmtree, folder)

    async def refresh(self, pod: Json, sandbox: Sandbox) -> float | None:
        """Show running containers what the API has now; return the seconds until another try."""
        if not self.are_stale:
            return None
        self.are_stale = False
        with_account = self._with_account or await tokens.with_account(self._cluster, pod)
        # The volumes are those of the start; labels and annotations are those of now.
        shown = self._with_account = {**pod, "spec": with_account["spec"]}
        if not any(volumes.is_shown(volume) for volume in sequence(shown["spec"], "volumes")):
            return None
        try:
            objects = await fetch_volume_objects(self._cluster, shown, self._folder)
            await asyncio.to_thread(self._preparer.refresh, shown, sandbox, objects)
        except ApiError:
            self.are_stale = True
            raise
        except (ConfigMissing, OSError) as problem:
            # The containers keep what they had; a ConfigMap that comes back wakes this worker.
            self.are_stale = isinstance(problem, OSError)
            message = f"MountVolume.SetUp failed for volumes of the Pod: {problem}"
            self._events.record(pod, "Warning", "FailedMount", message)
            return RETRY_SECONDS if self.are_stale else None
        return None
