"""Events of OpenLineage, made by its own classes, from the occurrences of an entity's run."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    schema_dataset,
)

from steelyard.services.lineage.datasets import Files, files_version, list_fields, list_files
from steelyard.services.lineage.occurrences import Occurrence
from steelyard_common import __version__
from steelyard_schema.base import DyffEntity

PRODUCER = f"https://github.com/steelyard/steelyard/tree/v{__version__}"
INTEGRATION = "STEELYARD"

FindEntity = Callable[[str], Awaitable[DyffEntity | None]]
"""Finds the newest state of another entity by its id."""


@dataclass(frozen=True)
class Names:
    """Names under which events are sent: the jobs' namespace, and the URL of the storage."""

    namespace: str
    storage: str


def run_id(id: str, attempt: int) -> str:
    """Return the id of an entity's run: the same whenever it is sent, by whichever process."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"steelyard:{id}:{attempt}"))


async def make_event(entity: DyffEntity, occurrence: Occurrence, names: Names, find: FindEntity) -> RunEvent:
    """Return the event of an occurrence.

    A job is one entity's workflow, so that what it reads and writes is exact: other evaluations read other datasets.
    """
    kind: str = entity.dump()["kind"]
    inputs, outputs = list_files(entity, names.storage)
    facets: dict[str, RunFacet] = {}
    if occurrence.type == "FAIL":
        text = ": ".join(part for part in (entity.reason, entity.message) if part) or entity.status
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=text, programmingLanguage="PYTHON", producer=PRODUCER
        )
    job_type: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration=INTEGRATION, jobType=kind.upper(), producer=PRODUCER
        )
    }
    return RunEvent(
        eventTime=occurrence.time.astimezone(UTC).isoformat(),
        producer=PRODUCER,
        run=Run(runId=run_id(entity.id, occurrence.attempt), facets=facets),
        job=Job(
            namespace=names.namespace, name=f"{entity.account}.{kind.lower()}.{entity.id}", facets=job_type
        ),
        eventType=RunState[occurrence.type],
        inputs=[
            InputDataset(files.namespace, files.name, facets=await _facets(files, find)) for files in inputs
        ],
        outputs=[OutputDataset(files.namespace, files.name, facets=_describe(entity)) for files in outputs],
    )


async def _facets(files: Files, find: FindEntity) -> dict[str, DatasetFacet]:
    entity = await find(files.entity) if files.entity else None
    return _describe(entity) if entity else {}


def _describe(entity: DyffEntity) -> dict[str, DatasetFacet]:
    """Return the facets of an entity's files: their version, and the schema of their rows."""
    version = dataset_version_dataset.DatasetVersionDatasetFacet(files_version(entity), producer=PRODUCER)
    described: dict[str, DatasetFacet] = {"version": version}
    if fields := _fields(list_fields(entity)):
        described["schema"] = schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)
    return described


def _fields(fields: Sequence[tuple[str, str]]) -> list[schema_dataset.SchemaDatasetFacetFields]:
    return [
        schema_dataset.SchemaDatasetFacetFields(name, type, ordinal_position=position)
        for position, (name, type) in enumerate(fields, 1)
    ]
