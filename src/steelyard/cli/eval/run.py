"""`steelyard eval run`: from a prompt file to a verified folder and a report page."""

from typing import Annotated

import typer

from steelyard.cli.eval.options import (
    CallOptions,
    CapOptions,
    EndpointOptions,
    JudgeOptions,
    PromptOptions,
    RowOptions,
    SamplingOptions,
    ScoringOptions,
    SignKeyOption,
    Text,
    list_given,
)
from steelyard.cli.option_groups import with_options
from steelyard_evaluation.engine.table_files import ENDINGS


@with_options
def run(
    prompts: Annotated[
        Text,
        typer.Argument(
            metavar="PROMPTS",
            help=f"Prompt file ({ENDINGS}), dataset of the Hugging Face hub (hf:NAME), task file (.yaml), or folder "
            "of a run to continue.",
        ),
    ] = None,
    *,
    endpoint: EndpointOptions,
    prompt: PromptOptions,
    sampling: SamplingOptions,
    scoring: ScoringOptions,
    rows: RowOptions,
    calls: CallOptions,
    caps: CapOptions,
    sign_key: SignKeyOption = None,
    judge: JudgeOptions,
    task: Annotated[
        Text, typer.Option(metavar="TASK", help="lm_eval:NAME, a task of the installed lm-eval.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate calls, tokens and cost; make no call.")
    ] = False,
    display: Annotated[
        Text,
        typer.Option(
            metavar="FORM",
            help="How to show progress: rich, plain, json or none. Default: rich in a terminal, else plain.",
        ),
    ] = None,
) -> None:
    """Ask a model every prompt of a file, and score the answers. It makes a report page.

    After any stop, the same command continues the run and pays only for what is missing. Exit status: 0 all rows
    answered, 1 failed, 2 wrong usage, 3 done with row errors, 4 stopped at a cap, 130 interrupted.
    """
    from steelyard.cli.eval.execute import execute, print_estimate
    from steelyard.cli.eval.request import Flags, request_from_flags

    options = list_given(endpoint, prompt, sampling, scoring, rows, calls, caps, judge)
    options |= {name: value for name, value in (("prompts", prompts), ("task", task)) if value is not None}
    request, folder = request_from_flags(Flags(options))
    if dry_run:
        raise typer.Exit(print_estimate(request, folder, display, fresh=endpoint.fresh))
    raise typer.Exit(execute(request, folder, display, sign_key, fresh=endpoint.fresh))
