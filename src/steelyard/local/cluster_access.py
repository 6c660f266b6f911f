"""The client of the Kubernetes that the settings name, for the operator and for the services that need one."""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.settings import IN_CLUSTER
from steelyard_common.errors import UsageError
from steelyard_kube.client import connect
from steelyard_kube.kubeconfig import KubeconfigError

if TYPE_CHECKING:
    from steelyard_kube.client import RestCluster

_HINT = (
    "set `kubernetes` (or STEELYARD_KUBERNETES) to the path of a kubeconfig, or to 'in-cluster' for the account "
    "of the Pod"
)


async def connect_cluster(kubernetes: str) -> "RestCluster":
    """Return a client of the cluster that the setting `kubernetes` names.

    Raises UsageError, which names the file, where there is nothing to log in with.
    """
    path = None if kubernetes == IN_CLUSTER else _path(kubernetes)
    try:
        return await connect(path, in_cluster=path is None)
    except KubeconfigError as error:
        raise UsageError(f"kubernetes {path or kubernetes}: {_fault(path, error)}; {_HINT}") from error


def _path(kubernetes: str) -> Path:
    return Path(kubernetes).expanduser()


def _fault(path: Path | None, error: KubeconfigError) -> str:
    """Say why nothing can be logged in with. The file is looked for after the reader, which may not be installed."""
    return "there is no such file" if path is not None and not path.exists() else str(error)
