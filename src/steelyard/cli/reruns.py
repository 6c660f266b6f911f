"""`steelyard rerun`: runs a pipeline again, whole or single steps of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import KindArgument, PlatformOptions, collection_name, one_id, one_of
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard.client import Client

AGAIN = frozenset({"pipelineruns", "submissions"})


@with_options
def rerun(
    kind: KindArgument,
    id: Annotated[str, typer.Argument(help="Id, or the beginning of one.")],
    step: Annotated[
        list[str] | None,
        typer.Option(help="Node that runs again, with those that need it. May be repeated. Default: all."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Run again the nodes that have not succeeded.")
    ] = False,
    *,
    platform: PlatformOptions,
) -> None:
    """Run a pipeline run, or a submission, again. The results of steps that do not run again are kept."""
    from steelyard.errors import UsageError

    if step and failed:
        raise UsageError("--step and --failed: give one of them")
    plural = one_of(collection_name(kind), AGAIN, "run of a pipeline")
    with platform.connect() as client:
        before = getattr(client, plural).get(one_id(client, plural, id))
        run = before.id if plural == "pipelineruns" else before.pipelineRun
        steps = _unsuccessful(client, run) if failed else step
        fields = {"account": before.account, **({"steps": steps} if steps else {})}
        again = client.pipelineruns.rerun if plural == "pipelineruns" else client.submissions.resubmit
        typer.echo(f"{plural}/{again(before.id, **fields).id}")


def _unsuccessful(client: "Client", run: str) -> list[str]:
    from steelyard.errors import UsageError
    from steelyard.schema.status import SUCCESS

    nodes = client.pipelineruns.status(run).nodes
    steps = [name for name, node in nodes.items() if node.status not in SUCCESS]
    if not steps:
        raise UsageError(f"--failed: all steps of pipelinerun {run} have succeeded")
    return steps
