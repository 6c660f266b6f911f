"""Settings of reports to other systems: traces and lineage."""

from pydantic import BaseModel, ConfigDict, Field


class TelemetrySettings(BaseModel):
    """Receivers of traces and lineage. OTEL_… and OPENLINEAGE_… variables come before the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    otlp_endpoint: str = Field(
        default="",
        description="URL of a receiver of OTLP over HTTP to which traces are sent, such as http://127.0.0.1:4318. "
        "Empty: the one in OTEL_EXPORTER_OTLP_ENDPOINT, or none.",
    )
    openlineage_url: str = Field(
        default="",
        description="URL of a receiver of OpenLineage to which the runs of workflows are reported, such as "
        "http://127.0.0.1:5000. Empty: the one in OPENLINEAGE_URL, or none.",
    )
    openlineage_namespace: str = Field(
        default="steelyard",
        min_length=1,
        description="Namespace of the jobs that are reported to OpenLineage.",
    )
