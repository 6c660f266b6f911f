"""The step that calls the replicas: every row of the dataset, every replication, into durable parts.

`python -m steelyard.steps.evaluation_client --config FILE`, as the `<name>-client-aN` Job of an Evaluation.
"""

import hashlib
import os
import random
from dataclasses import replace
from datetime import UTC, datetime

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.evaluation_metrics import Metrics
from steelyard.steps.evaluation_spec import dataset_store, evaluation_spec, output_store
from steelyard.steps.served_server import servers_recorded
from steelyard.steps.volume import VolumeManifest, input_store
from steelyard_common.discovery import IDENTITY_PORT, discovery
from steelyard_common.types import Json
from steelyard_evaluation.engine.attempt import Environment
from steelyard_evaluation.engine.engine import Stores, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.replicas import Absence
from steelyard_evaluation.storage.store import ObjectMissing
from steelyard_schema.names import MANIFEST
from steelyard_schema.resources import EvaluationResourceSpec
from steelyard_schema.steps import StepConfig

SESSION_ENDED_OPTION = "sessionEndedSeconds"
"""`client.extraOptions`: how long a referenced session may be without a replica before it counts as ended."""
MOST_SECONDS = 2**31 - 1
WAIT_FOR_SERVER_OPTION = "waitForServerSeconds"
"""`client.extraOptions`: how long the replicas may refuse connections before the attempt ends."""


async def main(config: StepConfig, log: Log) -> None:
    spec = evaluation_spec(config)
    if config.replicas is None:
        raise StepFailed("BadConfiguration", "replicas: is missing", permanent=True)
    try:
        resolved = discovery(config.replicas, os.environ)
        gone = _seconds(spec, SESSION_ENDED_OPTION, Absence().gone_seconds)
        environment = Environment(
            now=lambda: datetime.now(UTC),
            jitter=random.random,
            log=log,
            # A file names addresses of the user's choice, which need not be Pods of Steelyard's.
            identity_port=None if config.replicas.startswith("file:") else IDENTITY_PORT,
            absence=Absence(gone_seconds=gone),
            watch=(metrics := Metrics()).watch,
        )
        stores = Stores(dataset_store(spec), output_store(spec))
        plan = compile_plan(spec)
        plan = replace(
            plan,
            # Weights belong to what is asked: an attempt after the model was replaced must not go on with its
            # answers.
            identity={**plan.identity, "volumes": await list_volumes(spec)},
            wait_for_server=_seconds(spec, WAIT_FOR_SERVER_OPTION, plan.wait_for_server),
        )
        async with (
            metrics.serve(os.environ.get("POD_IP"), log),
            servers_recorded(spec, resolved, stores.output),
        ):
            summary = await evaluate(plan, stores, resolved, config.epoch, environment)
    except EvaluationFailed as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent, row=error.row) from error
    except ValueError as error:
        raise StepFailed("BadConfiguration", str(error), permanent=True) from error
    log.info(
        "all rows are durable",
        rows=summary.total,
        resumed=summary.resumed,
        rowErrors=summary.row_errors,
        retries=summary.retries,
        refused=summary.refused,
    )


def _seconds(spec: EvaluationResourceSpec, option: str, default: float) -> float:
    """An option of `client.extraOptions` that is a time; ValueError for any other value."""
    text = spec.client.extraOptions.get(option)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"client.extraOptions.{option}: {text!r} should be seconds from 0 to {MOST_SECONDS}")
    return seconds


async def list_volumes(spec: EvaluationResourceSpec) -> list[Json]:
    """Every Data mount whose location is known, by name; without files where no digests of them were kept.

    They go into run.json, so that a report can name the model's files, and an output that was begun with other files is
    not gone on with. `fetch_volume` checks the same digests in every replica.
    """
    runner = spec.inferenceSession.inferenceService.runner
    folders = []
    for mount in (runner.volumeMounts if runner else None) or []:
        if mount.data is None or mount.name not in spec.storage.inputs:
            continue
        described = {"name": mount.name, "source": mount.data.source.dump()}
        folders.append(described | await _content(spec, mount.name))
    return sorted(folders, key=lambda volume: str(volume["name"]))


async def _content(spec: EvaluationResourceSpec, name: str) -> Json:
    store = input_store(spec.storage.inputs, name)
    try:
        raw = await store.get(MANIFEST)
    # Volumes of earlier versions have no manifest: their files are unknown, which the report says.
    except ObjectMissing:
        return {}
    files = VolumeManifest.model_validate_json(raw).files
    manifest = {"path": MANIFEST, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return {"files": [*(file.model_dump() for file in files), manifest]}


if __name__ == "__main__":
    run_step(main, "evaluation_client")
