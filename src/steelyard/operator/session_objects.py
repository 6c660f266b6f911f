"""The objects that a session consists of: ConfigMap, headless Service, Deployment."""

from steelyard.operator.jobs import child_metadata, config_map, step_config, storage_secret
from steelyard.operator.names import OWNER, child_name
from steelyard.operator.pods import (
    CONFIG_MOUNT,
    CONTAINER_SECURITY,
    POD_IP,
    pod_template,
    secrets_volume,
    step_container,
    step_volumes,
    with_secrets,
)
from steelyard.operator.runners import PORT, data_mounts, mounts, runner_container, volumes
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json, mapping
from steelyard_schema.hosted_model import is_hosted

IDENTITY_PORT = 8001


def session_objects(session: Json, settings: OperatorSettings) -> tuple[Json, ...]:
    """Make a session's objects, in the order in which they must be created."""
    metadata = child_metadata(session, child_name(session["metadata"]["name"]), "session")
    hosted = is_hosted(session["spec"]["inferenceService"]["runner"])
    return (
        config_map(metadata, step_config(session, "hosted_model" if hosted else "fetch_volume", settings)),
        _service(session, metadata),
        _deployment(session, metadata, settings),
    )


def _service(session: Json, metadata: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {OWNER: session["metadata"]["uid"]},
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT}],
        },
    }


def _deployment(session: Json, metadata: Json, settings: OperatorSettings) -> Json:
    service = session["spec"]["inferenceService"]
    runner, secret = service["runner"], storage_secret(session, settings)
    init = {}
    if data_mounts(runner):
        fetch = step_container("fetch-volume", "fetch_volume", settings, secret)
        fetch["volumeMounts"] = [*fetch["volumeMounts"], *mounts(runner)]
        init = {"initContainers": [fetch]}
    pull = mapping(session["spec"], "secrets").get("imagePull")
    container, own_volumes = runner_container(service, settings), volumes(runner)
    if is_hosted(runner):
        container = _add_hosting(container, secret)
        # No runner but ours gets the provider's key, whatever the service names.
        if provider := mapping(session["spec"], "secrets").get("provider"):
            container = with_secrets(container)
            own_volumes = [secrets_volume({"provider": provider})]
    containers = [container, _identity(session, settings)]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": session["spec"].get("replicas", 1),
            "selector": {"matchLabels": {OWNER: session["metadata"]["uid"]}},
            "template": pod_template(
                metadata["labels"],
                containers,
                [*step_volumes(metadata["name"]), *own_volumes],
                settings,
                pull_secrets=[pull] if pull else (),
                spot=session["spec"].get("useSpotPods", True),
                **init,
                terminationGracePeriodSeconds=10,
            ),
        },
    }


def _add_hosting(container: Json, secret: str) -> Json:
    """Give the runner of a hosted model what a step gets: its configuration, and the way to the ledger in storage."""
    mounted = {**container, "volumeMounts": [CONFIG_MOUNT, *container["volumeMounts"]]}
    return mounted | ({"envFrom": [{"secretRef": {"name": secret}}]} if secret else {})


def _identity(session: Json, settings: OperatorSettings) -> Json:
    """Make the container that names the Pod's session, so that a reused address never answers for another model."""
    module = "steelyard.steps.session_identity"
    return {
        "name": "session",
        "image": settings.images.steps,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", module, "--session", session["spec"]["id"]],
        "env": [
            POD_IP,
            {"name": "HOST", "value": "$(POD_IP)"},
            {"name": "PORT", "value": str(IDENTITY_PORT)},
        ],
        "ports": [{"name": "identity", "containerPort": IDENTITY_PORT}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": CONTAINER_SECURITY,
    }
