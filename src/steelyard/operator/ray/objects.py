"""Objects of the platform for one Ray cluster: a pure function of the cluster, the settings and the platform."""

from steelyard.operator.ray.certificates.decisions import certificate_changes, certificate_objects
from steelyard.operator.ray.dashboards import address_change, dashboard_objects
from steelyard.operator.ray.networks import head_policy, workers_policy
from steelyard.operator.ray.owned import Platform
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting


def objects_of(cluster: Json, settings: RaySettings, platform: Platform) -> list[Json]:
    """Return what should exist for a cluster. Its owner takes all of it away with it."""
    if is_deleting(cluster):
        return []
    objects = dashboard_objects(cluster, settings, platform)
    if settings.network_policy:
        objects += [workers_policy(cluster), head_policy(cluster, settings)]
    return objects + certificate_objects(cluster, settings, platform)


def annotation_changes(cluster: Json, settings: RaySettings, platform: Platform) -> Json:
    """Return the annotations of the cluster that change; None for one that goes."""
    if is_deleting(cluster):
        return {}
    return {
        **address_change(cluster, settings, platform),
        **certificate_changes(cluster, settings, platform),
    }
