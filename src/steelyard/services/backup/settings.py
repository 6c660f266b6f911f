"""Settings of the backup's archive."""

from pydantic import BaseModel, ConfigDict, Field


class BackupSettings(BaseModel):
    """Times of the archive: how often it is written, and how far it reaches back."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    segment_seconds: float = Field(
        default=60, ge=1, le=3600, description="Longest time that a change waits before it is in the backup."
    )
    snapshot_hours: float = Field(
        default=24, gt=0, le=24 * 7, description="Time between two snapshots of all entities."
    )
    keep_days: float = Field(
        default=7,
        ge=0,
        le=3650,
        description="How far back `--until` reaches, and how long the backup keeps forgotten entities.",
    )
