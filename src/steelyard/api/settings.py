"""The API's settings. `steelyard.settings` reads them from the one settings file."""

from pydantic import BaseModel, ConfigDict, Field

from steelyard.schema.bounds import ENTITY_BYTES, INT32


class ApiSettings(BaseModel):
    """What the API needs to know besides its engines. Times are in seconds, sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port to listen on; 0: one that is free.")
    public_url: str = Field(
        default="",
        description="Where clients reach the API, without /v0; signed URLs begin with it. Absent: the address that it "
        "listens on; behind a proxy, or where the API has a name, it has to be set.",
    )
    outcome_seconds: float = Field(
        default=5.0,
        gt=0,
        le=INT32,
        description="How long an edit waits until it is applied, before it answers 503.",
    )
    entity_bytes: int = Field(
        default=ENTITY_BYTES, ge=1024, le=ENTITY_BYTES, description="Largest entity, and largest request."
    )
    session_replicas: int = Field(
        default=1000, ge=1, le=INT32, description="Most replicas of one inference session."
    )
    query_limit: int = Field(default=10_000, ge=1, description="Most entities that one query answers.")
    upload_url_seconds: int = Field(
        default=3600, ge=1, le=INT32, description="How long a URL for an upload is good."
    )
    download_url_seconds: int = Field(
        default=3600, ge=1, le=INT32, description="How long a URL for a download is good."
    )
    file_bytes: int = Field(default=64 << 30, ge=1, description="Largest file that may be uploaded.")
    spool: str = Field(
        default="", description="Folder for files on their way to and from storage; absent: the system's."
    )
    session_seconds: int = Field(
        default=3600,
        ge=1,
        le=INT32,
        description="When an inference session ends whose request names no time.",
    )
    inference_bytes: int = Field(
        default=64 << 20, ge=1, description="Largest request to an inference session."
    )
    inference_seconds: int = Field(
        default=600, ge=1, le=INT32, description="Longest silence of a replica that is asked."
    )
    recheck_seconds: float = Field(
        default=30.0,
        gt=0,
        le=INT32,
        description="How often an open stream looks whether its token still counts.",
    )
