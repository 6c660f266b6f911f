"""All definitions of the package; `service.apply_crds` installs them with Steelyard's own."""

from steelyard.local.definitions.app_wrapper import app_wrapper_definition
from steelyard.local.definitions.kueue import kueue_definitions
from steelyard.local.definitions.ray import ray_definitions
from steelyard_common.types import Json


def embedded_definitions() -> list[Json]:
    """Return the embedded forms of other projects' definitions."""
    return [*ray_definitions(), app_wrapper_definition(), *kueue_definitions()]
