"""The operator of a state folder, as `steelyard service operator` runs it, for the supervisor or alone."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.local.cluster_access import connect_cluster
from steelyard.local.identity import process_candidate
from steelyard.local.images import KUBECTL
from steelyard.local.sleeps import sleep_watch
from steelyard.local.state import StateDir, write_note
from steelyard.operator.settings import OperatorSettings
from steelyard_common.errors import SteelyardError
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.resource import LEASES

if TYPE_CHECKING:
    from steelyard.settings import Settings

_log = logging.getLogger(__name__)
RAY_LISTEN, RAY_SERVICE = "127.0.0.1:9443", "kube-system/steelyard-ray"


async def run_operator_service(
    state: StateDir, loaded: "Settings", *, stop: asyncio.Event, ready: Callable[[], None]
) -> None:
    """The operator, with these settings."""
    from steelyard.operator.main import run_operator
    from steelyard.telemetry.monitoring import listen_address
    from steelyard.telemetry.tracing import send_spans

    operator = operator_settings(loaded, state)

    def listening(url: str) -> None:
        _log.info("metrics are served on %s", url)
        write_note(state.operator_metrics, f"{url}\n")

    cluster = await connect_cluster(loaded.kubernetes)
    try:
        await check_lease(cluster, operator.lease_namespace)
        ready()
        where = listen_address(operator.metrics, one_machine=state.runs(loaded.kubernetes))
        with send_spans("operator", loaded.telemetry.otlp_endpoint):
            await run_operator(
                cluster,
                operator,
                candidate=process_candidate(),
                stop=stop,
                metrics=where,
                listening=listening,
                sleeps=sleep_watch(state).sleeps,
            )
    finally:
        state.operator_metrics.unlink(missing_ok=True)
        await cluster.close()


async def check_lease(cluster: Cluster, namespace: str) -> None:
    """Say at once, in one line, when the API does not answer, or refuses the token or the first right that is needed.

    Reads the lease, for which an operator of one namespace needs no right in the whole cluster. Raises SteelyardError.
    """
    from steelyard.operator.main import LEASE

    try:
        await cluster.get(LEASES, LEASE, namespace)
    except NotFound:
        return  # the first leader makes it
    except ApiError as error:
        raise SteelyardError(
            f"the operator cannot read lease {namespace}/{LEASE}: {error.message}"
        ) from error


def operator_settings(loaded: "Settings", state: StateDir) -> OperatorSettings:
    """The operator's part. On the embedded Kubernetes, files that are not set lie in this folder; an empty text is set.

    Another cluster's nodes know neither the folder nor the local image.
    """
    training = loaded.operator.training
    here = {"outputs": str(state.outputs), "kubectl_delivery_image": KUBECTL}
    if state.runs(loaded.kubernetes):
        unset = {name: value for name, value in here.items() if name not in training.model_fields_set}
        training = training.model_copy(update=unset)
    ray = loaded.operator.ray
    if state.runs(loaded.kubernetes):
        # Its Pods and its API call this process itself, at an address that stays when it is started again.
        local = {"listen": RAY_LISTEN, "service": RAY_SERVICE}
        unset = {name: value for name, value in local.items() if name not in ray.model_fields_set}
        ray = ray.model_copy(update=unset)
    storage = loaded.operator.storage or loaded.storage
    pods = loaded.pods
    parts = {"storage": storage, "egress": loaded.egress, "pods": pods, "training": training, "ray": ray}
    return loaded.operator.model_copy(update=parts)
