"""Secrets of accounts: what requests and answers say of them, and how an entity refers to one.

A secret is a token, a password or a configuration that a workflow needs. An entity holds its name alone; the value lies
encrypted in the accounts database, and no answer, entity, log or backup has it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel, Time
from steelyard_schema.bounds import Word
from steelyard_schema.data_source import DataSource
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.model import Model
from steelyard_schema.safety_case import SafetyCase

VALUE_BYTES = 32 * 1024
"""Largest value, in bytes of UTF-8."""
MOST_SECRETS = 100
"""Most secrets that one account may have."""

SECRET_NAME_PATTERN = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
SecretName = Annotated[str, Field(pattern=SECRET_NAME_PATTERN, max_length=63)]
SecretPurpose = Literal["source", "imagePull", "provider"]
"""Use of a secret by a workflow: for its source of files, the registry of its image, or the provider of its model."""
PURPOSES: tuple[SecretPurpose, ...] = ("source", "imagePull", "provider")

ANNOTATION = "steelyard/secret-"
"""Beginning of an annotation with the name of a secret: `steelyard/secret-source`."""


class Secret(SchemaModel):
    """A secret as it is shown: everything but its value."""

    account: Word
    """Account to which the secret belongs: the one that entities name in `account`."""
    name: SecretName
    """Name of the secret within its account."""
    fingerprint: str
    """Keyed digest of the value: 16 hexadecimal digits that change with the value and do not reveal it."""
    created: Time
    """Time at which the secret was made."""
    updated: Time
    """Time at which its value was last set."""


class SourceSecrets(SchemaModel):
    """Names of the secrets that fetching files may need."""

    source: SecretName | None = None
    """Name of the secret with the token for a gated or private source."""


class ServiceSecrets(SchemaModel):
    """Names of the secrets that serving a model may need."""

    imagePull: SecretName | None = None
    """Name of the secret with the Docker configuration (JSON) that opens the image's registry."""
    provider: SecretName | None = None
    """Name of the secret with the key of the provider that hosts the model."""


class MethodSecrets(SchemaModel):
    """Names of the secrets that a method's measurements and safety cases may need."""

    imagePull: SecretName | None = None
    """Name of the secret with the Docker configuration (JSON) that opens the registry of `analysisImage`."""


class SecretObjects(SchemaModel):
    """Names of Kubernetes Secrets in the resource's namespace, by what the workflow needs them for."""

    source: Word | None = None
    """Secret whose key `value` is the token for the source of files."""
    imagePull: Word | None = None
    """Secret of type kubernetes.io/dockerconfigjson for the registry of the image of the runner, or of the method."""
    provider: Word | None = None
    """Secret whose key `value` is the key of the provider that hosts the model."""


def secret_annotations(names: Mapping[Any, str]) -> list[dict[str, str]]:
    """Return the annotations that name secrets by their purposes."""
    return [{"key": f"{ANNOTATION}{purpose}", "value": name} for purpose, name in names.items()]


def list_secrets(entity: DyffEntity) -> dict[SecretPurpose, str]:
    """Return the names of the secrets that an entity refers to, by purpose."""
    notes = {note.key: note.value for note in entity.annotations}
    return {
        purpose: notes[f"{ANNOTATION}{purpose}"] for purpose in PURPOSES if f"{ANNOTATION}{purpose}" in notes
    }


def list_service_secrets(entity: DyffEntity) -> dict[SecretPurpose, str]:
    """Return the names of the secrets that a session of this inference service needs, by purpose."""
    return {purpose: name for purpose, name in list_secrets(entity).items() if purpose != "source"}


def list_method_secrets(entity: DyffEntity) -> dict[SecretPurpose, str]:
    """Return the names of the secrets that a measurement or a safety case by this method needs, by purpose."""
    return {purpose: name for purpose, name in list_secrets(entity).items() if purpose == "imagePull"}


def list_needed_secrets(entity: DyffEntity) -> dict[SecretPurpose, str]:
    """Return the names of the secrets without which the entity's own workflow cannot run, by purpose."""
    match entity:
        case DataSource() | Model() | InferenceSession() | Measurement() | SafetyCase():
            return list_secrets(entity)
        case Evaluation() if not entity.inferenceSessionReference:  # a session that runs has them already
            return list_secrets(entity)
        case _:
            return {}


def object_name(resource: str, purpose: SecretPurpose) -> str:
    """Return the name of the Kubernetes Secret that holds the value for a workflow's resource."""
    words = {"imagePull": "image-pull"}
    return f"{resource}-{words.get(purpose, purpose)}"
