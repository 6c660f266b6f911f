"""Properties of a Pod by its manifest: whether its network, host name and process numbers are its own, and
whether it trains.
"""

from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations, read_labels

HOST_NAME_LIMIT = 63
_TRAINING = "training.kubeflow.org/"
_OWN_TRAINING = "steelyard/training"
_BINDS = "steelyard/binds"
_MPI = "mpijob-controller"
_RAY = "ray.io/cluster"


def of_the_host(pod: Json) -> bool:
    """Return whether the Pod has no address of its own."""
    return bool(pod["spec"].get("hostNetwork"))


def is_training(pod: Json) -> bool:
    """Return whether the Pod belongs to a training job or a Ray cluster, by its labels or annotations."""
    keys = {*read_annotations(pod), *read_labels(pod)}
    return any(key.startswith(_TRAINING) or key in (_OWN_TRAINING, _RAY) for key in keys)


def host_name(pod: Json) -> str:
    """The name that the Pod's programs see as their machine's; none of its own on the host's network."""
    if of_the_host(pod):
        return ""
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:HOST_NAME_LIMIT].rstrip("-.")


def binds_as_asked(pod: Json) -> bool:
    """Return whether a training Pod binds exactly what it requests.

    Its annotation says so; and MPI sends its peers the addresses of network cards, with ports that the kernel chose.
    """
    annotated = read_annotations(pod).get(_BINDS) == "as-asked"
    return annotated or read_labels(pod).get(f"{_TRAINING}operator-name") == _MPI


def binds_are_its_own(pod: Json, *, available: bool) -> bool:
    """Return whether a bind to all addresses becomes one to the Pod's: frameworks that train bind all, on equal
    ports.
    """
    return available and is_training(pod) and not of_the_host(pod) and not binds_as_asked(pod)


def may_bind_all(pod: Json, *, available: bool) -> bool:
    """Pods of the host's network; training Pods whose binds are not made their own."""
    return of_the_host(pod) or (is_training(pod) and not binds_are_its_own(pod, available=available))


def numbers_are_its_own(pod: Json, *, available: bool) -> bool:
    """Return whether its containers have process numbers of their own: `hostPID` requests the machine's.

    So do containers that share theirs: what they share here is the machine's.
    """
    spec = pod["spec"]
    return available and not spec.get("hostPID") and not spec.get("shareProcessNamespace")
