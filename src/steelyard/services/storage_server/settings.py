"""Settings of the server of the storage folder. `steelyard.settings` reads them from the one settings file."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from steelyard.telemetry.monitoring import Listen


class StorageServerSettings(BaseModel):
    """Settings of the server that gives the storage folder to Pods which cannot mount it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    listen: Listen = Field(
        default="",
        description="HOST:PORT where the folder of `storage` is served by the S3 protocol; :PORT is every address, "
        "empty none.",
    )
    bucket: str = Field(
        default="steelyard",
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        description="Name of the bucket that stands for the folder.",
    )
    access_key: SecretStr = Field(
        default=SecretStr(""), description="Name of the key with which clients sign their requests."
    )
    secret_key: SecretStr = Field(
        default=SecretStr(""),
        description="The key itself, at least 16 characters; who has it reads and writes the whole storage.",
    )
