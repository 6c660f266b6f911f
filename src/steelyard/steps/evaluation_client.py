"""The step that calls the replicas: every row of the dataset, every replication, into durable parts.

`python -m steelyard.steps.evaluation_client --config FILE`, as the `<name>-client-aN` Job of an Evaluation.
"""

import os
import random
from dataclasses import replace
from datetime import UTC, datetime

from steelyard.discovery import IDENTITY_PORT, discovery
from steelyard.evaluation.attempt import Environment
from steelyard.evaluation.engine import Stores, evaluate
from steelyard.evaluation.errors import EvaluationFailed
from steelyard.evaluation.plan import plan_of
from steelyard.evaluation.replicas import Absence
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.evaluation_metrics import Metrics
from steelyard.steps.evaluation_spec import dataset_store, evaluation_spec, output_store
from steelyard.steps.served_server import servers_recorded
from steelyard.steps.served_volumes import served_volumes
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
        plan = plan_of(spec)
        plan = replace(
            plan,
            # Weights belong to what is asked: an attempt after the model was replaced must not go on with its
            # answers.
            identity={**plan.identity, "volumes": await served_volumes(spec)},
            wait_for_server=_seconds(spec, WAIT_FOR_SERVER_OPTION, plan.wait_for_server),
        )
        async with (
            metrics.served(os.environ.get("POD_IP"), log),
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


if __name__ == "__main__":
    run_step(main, "evaluation_client")
