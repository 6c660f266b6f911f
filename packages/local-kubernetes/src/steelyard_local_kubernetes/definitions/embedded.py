"""All definitions of the package; `installation.py` installs them."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.app_wrapper import app_wrapper_definition
from steelyard_local_kubernetes.definitions.kueue import kueue_definitions
from steelyard_local_kubernetes.definitions.ray import ray_definitions


def list_definitions() -> list[Json]:
    """Return the embedded forms of other projects' definitions."""
    return [*ray_definitions(), app_wrapper_definition(), *kueue_definitions()]
