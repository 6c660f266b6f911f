"""`steelyard rerun`: runs a workflow again, or a pipeline, whole or single steps of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import (
    TERMINATED,
    WORKFLOWS,
    PlatformOptions,
    collection_name,
    find_supporting,
    kind_argument,
    one_id,
)
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard_schema.pipeline_run import PipelineRun
    from steelyard_schema.submission import Submission


@with_options
def rerun(
    kind: Annotated[str, kind_argument(TERMINATED)],
    id: Annotated[str, typer.Argument(help="Id, the beginning of an id, or name.")],
    step: Annotated[
        list[str] | None,
        typer.Option(
            help="Node of a pipeline that runs again, with those that need it. May be repeated. Default: all."
        ),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Run again the nodes of a pipeline that have not succeeded.")
    ] = False,
    *,
    platform: PlatformOptions,
) -> None:
    """Run a workflow that has ended again, with the same request.

    It may be a failed evaluation, or a fetch that was terminated. The command prints the new entity, whose annotation
    steelyard/rerun-of has the id of the earlier one. Of a pipeline run or a submission, single steps may run again; the
    results of the others are kept.
    """
    from steelyard_common.errors import UsageError

    if step and failed:
        raise UsageError("--step and --failed: give one of them")
    plural = find_supporting(collection_name(kind, TERMINATED), TERMINATED, "workflow to run again")
    if plural in WORKFLOWS and (step or failed):
        raise UsageError(
            f"{'--failed' if failed else '--step'}: {plural} have no steps; pipelineruns and submissions do"
        )
    with platform.connect() as client:
        before = one_id(client, plural, id)
        if plural in WORKFLOWS:
            created = getattr(client, plural).rerun(before)
            # The answer to a new session holds its token, too.
            again = getattr(created, "inferencesession", created)
        else:
            again = _pipeline_again(client, plural, before, step, failed=failed)
        typer.echo(f"{plural}/{again.id}")


def _pipeline_again(
    client: "Client", plural: str, id: str, step: list[str] | None, *, failed: bool
) -> "PipelineRun | Submission":
    before = getattr(client, plural).get(id)
    run = before.id if plural == "pipelineruns" else before.pipelineRun
    steps = _unsuccessful(client, run) if failed else step
    fields = {"account": before.account, **({"steps": steps} if steps else {})}
    if plural == "pipelineruns":
        return client.pipelineruns.rerun(id, **fields)
    return client.submissions.resubmit(id, **fields)


def _unsuccessful(client: "Client", run: str) -> list[str]:
    from steelyard_common.errors import UsageError
    from steelyard_schema.status import SUCCESS

    nodes = client.pipelineruns.status(run).nodes
    steps = [name for name, node in nodes.items() if node.status not in SUCCESS]
    if not steps:
        raise UsageError(f"--failed: all steps of pipelinerun {run} have succeeded")
    return steps
