"""The API's settings. `steelyard.settings` reads them from the one settings file."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from steelyard_schema.bounds import ENTITY_BYTES, INT32
from steelyard_schema.inference_service import HOST_PATTERN

HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_.-]+$")]


def refuse_empty(secret: SecretStr) -> SecretStr:
    """Refuse a secret that is given and empty: whoever sets it expects that it counts."""
    if not secret.get_secret_value():
        raise ValueError("is empty; give a token, or leave the setting out")
    return secret


class ApiSettings(BaseModel):
    """Settings of the API besides its engines. Times are in seconds, sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port to listen on; 0 for a free one.")
    public_url: str = Field(
        default="",
        description="URL at which clients reach the API, without /v0; signed URLs begin with it. Without it: the "
        "address that the API listens on; behind a proxy, or if the API has a name, it has to be set.",
    )
    hosts: list[HostName] = Field(
        default=[],
        max_length=100,
        description="Further names by which clients reach the API, as their requests' Host says. The host of "
        "`public_url`, addresses, names without a dot, and those that end in .svc or .cluster.local need not be "
        "listed for that. Without `public_url`, links name the host of a request only if it is listed, or is the "
        "API's address.",
    )
    image_registry: str = Field(
        default="",
        max_length=255,
        pattern=f"^$|{HOST_PATTERN}",
        description="Address, without scheme, at which the nodes of the cluster pull images of artifacts: that of the "
        "API or of a proxy before it, such as registry.example.com:5000. Without it, `runner.imageRef` is refused.",
    )
    analysis_image: str = Field(
        default="",
        max_length=512,
        pattern="^$|^[^/@]+/[^@]+@sha256:[0-9a-f]{64}$",
        description="Image, HOST/NAME@DIGEST, that a new method gets which names none (`analysisImage`). Without it, "
        "such a method has none and runs in the platform's own image; on one machine, methods name that one.",
    )
    administrator_token: Annotated[SecretStr, AfterValidator(refuse_empty)] = Field(
        default=SecretStr(""),
        description="Token of the first administrator, of at least 32 characters. Without it: on one machine a token "
        "in the state folder, else one that all API servers derive from the accounts database.",
    )
    outcome_seconds: float = Field(
        default=5.0,
        gt=0,
        le=INT32,
        description="Time for which an edit waits to be applied before it is answered 503.",
    )
    lease_seconds: float = Field(
        default=15.0,
        gt=0,
        le=3600,
        description="Time after which another API server sends what one has accepted that no longer answers. One that "
        "was killed on the same machine is followed within a third of it.",
    )
    entity_bytes: int = Field(
        default=ENTITY_BYTES,
        ge=1024,
        le=ENTITY_BYTES,
        description="Maximum size of an entity, and of a request.",
    )
    session_replicas: int = Field(
        default=1000, ge=1, le=INT32, description="Maximum replicas of one inference session."
    )
    account_tokens: int = Field(
        default=1000, ge=1, le=100_000, description="Maximum valid tokens of one account."
    )
    session_tokens: int = Field(
        default=1000, ge=1, le=100_000, description="Maximum valid tokens of one inference session."
    )
    access_log: bool = Field(
        default=False,
        description="Whether every request is logged: subject and id of its token, function, route, entity and status.",
    )
    query_limit: int = Field(default=10_000, ge=1, description="Maximum entities of one answer to a query.")
    upload_url_seconds: int = Field(
        default=3600, ge=1, le=INT32, description="Time for which a URL for an upload is valid."
    )
    download_url_seconds: int = Field(
        default=3600, ge=1, le=INT32, description="Time for which a URL for a download is valid."
    )
    signed_urls: Literal["api", "store"] = Field(
        default="api",
        description="Where URLs of uploads and downloads lead: to the API, which passes the files on, or to the object "
        "store itself (S3, Google Cloud Storage, Azure), which clients then have to reach.",
    )
    file_bytes: int = Field(default=64 << 30, ge=1, description="Maximum size of an uploaded file.")
    spool: str = Field(
        default="",
        description="Folder for files on their way to and from storage, which has to be there; by default the "
        "system's.",
    )
    session_seconds: int = Field(
        default=3600,
        ge=1,
        le=INT32,
        description="Lifetime of an inference session whose request names no end.",
    )
    inference_bytes: int = Field(
        default=64 << 20, ge=1, description="Maximum size of a request to an inference session."
    )
    inference_seconds: int = Field(
        default=600, ge=1, le=INT32, description="Longest time without a byte of a replica's answer."
    )
    drain_seconds: float | None = Field(
        default=None,
        ge=0,
        le=3600,
        description="Time for which the API goes on answering after it was asked to end, while /readyz says 503, so "
        "that a load balancer sends new requests elsewhere. Absent: 5 in a cluster's Pod, else 0.",
    )
    recheck_seconds: float = Field(
        default=30.0,
        gt=0,
        le=INT32,
        description="Time between two checks of the token of an open stream.",
    )
