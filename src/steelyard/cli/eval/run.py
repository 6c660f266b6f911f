"""`steelyard eval run`: from a prompt file to a verified folder and a report page."""

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.eval.options import (
    ClusterOption,
    GroupOption,
    JudgeAgainstOption,
    JudgeCriteriaOption,
    JudgeKeyOption,
    JudgeModelOption,
    JudgePromptOption,
    JudgeTimesOption,
    JudgeUrlOption,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    PricesOption,
    ReducerOption,
    SignKeyOption,
)

Text = str | None
Many = list[str] | None
Number = int | None


def run(
    prompts: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPTS",
            help="A prompt file (.parquet, .arrow, .jsonl, .csv), a dataset of the hub (hf:NAME), a task file "
            "(.yaml), or the folder of a run to go on with.",
        ),
    ] = None,
    url: Annotated[
        Many,
        typer.Option(
            metavar="URL",
            help="Base URL of the endpoint, such as http://host:8000/v1; again for more replicas.",
        ),
    ] = None,
    same_model_at: Annotated[
        Many,
        typer.Option(metavar="URL", help="Go on with a run at this URL: the same model answers there now."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask every row again; a run that is there is set aside.")
    ] = False,
    model: Annotated[
        Text, typer.Option(metavar="NAME", help="The model's name, as the endpoint knows it.")
    ] = None,
    rubric: Annotated[
        Many,
        typer.Option(
            metavar="RUBRIC",
            help="How to score: exact-match, 'close?rel=0.01', …; the first one leads.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder; by default runs/<name>-<8 hex of what is asked>."),
    ] = None,
    api: Annotated[Text, typer.Option(metavar="API", help="chat (the default) or completions.")] = None,
    api_key_env: Annotated[
        Text,
        typer.Option(
            metavar="NAME", help="The environment variable with the key; by default OPENAI_API_KEY."
        ),
    ] = None,
    format: Annotated[
        Text, typer.Option(metavar="FORMAT", help="parquet, arrow, jsonl or csv; by default by name.")
    ] = None,
    map: Annotated[
        Many, typer.Option(metavar="NAME=COLUMN", help="Rename a column: prompt=question.")
    ] = None,
    prompt: Annotated[
        Text, typer.Option(metavar="TEXT", help="The prompt as Jinja text: 'Q: {{ question }}'.")
    ] = None,
    template: Annotated[Path | None, typer.Option(metavar="FILE", help="The same from a file.")] = None,
    system: Annotated[Text, typer.Option(metavar="TEXT", help="System prompt: text, or @FILE.")] = None,
    few_shot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file of rows that are shown, with their answers, before each prompt."
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", min=0, help="0 for the likeliest answer.")
    ] = None,
    max_tokens: Annotated[Number, typer.Option(metavar="N", min=1, help="Of one answer.")] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", min=0, max=1, help="Of the likeliest tokens.")
    ] = None,
    stop: Annotated[
        Many, typer.Option(metavar="TEXT", help="Text at which an answer ends; may be given again.")
    ] = None,
    max_stops: Annotated[
        Number,
        typer.Option(
            metavar="N",
            min=0,
            help="Stops that the endpoint takes (4); answers are cut at further ones here.",
        ),
    ] = None,
    param: Annotated[
        Many, typer.Option(metavar="NAME=VALUE", help="Any other parameter of the request.")
    ] = None,
    replications: Annotated[
        Number, typer.Option(metavar="N", min=1, help="How often each row is asked.")
    ] = None,
    reducer: ReducerOption = None,
    group_by: GroupOption = None,
    cluster_by: ClusterOption = None,
    limit: Annotated[Number, typer.Option(metavar="N", min=1, help="The first rows only.")] = None,
    sample: Annotated[Number, typer.Option(metavar="N", min=1, help="So many rows, drawn at random.")] = None,
    seed: Annotated[Number, typer.Option(metavar="N", min=0, help="For --sample; by default 0.")] = None,
    concurrency: Annotated[
        Text, typer.Option(metavar="N|auto", help="Calls in flight per URL, at most; auto finds it out.")
    ] = None,
    timeout: Annotated[Text, typer.Option(metavar="TIME", help="For one call; by default 10m.")] = None,
    wait_for_server: Annotated[
        Text,
        typer.Option(
            metavar="TIME", help="Wait so long for an endpoint that refuses connections; by default 10m."
        ),
    ] = None,
    retries: Annotated[Number, typer.Option(metavar="N", min=0, help="Of one row; by default 10.")] = None,
    bad_rows: Annotated[
        Text, typer.Option(metavar="POLICY", help="skip (the default) or abort: after a refused row.")
    ] = None,
    max_tokens_total: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    max_time: MaxTimeOption = None,
    sign_key: SignKeyOption = None,
    judge_model: JudgeModelOption = None,
    judge_url: JudgeUrlOption = None,
    judge_criteria: JudgeCriteriaOption = None,
    judge_prompt: JudgePromptOption = None,
    judge_against: JudgeAgainstOption = None,
    judge_times: JudgeTimesOption = None,
    judge_api_key_env: JudgeKeyOption = None,
    task: Annotated[
        Text, typer.Option(metavar="TASK", help="lm_eval:NAME, a task of the installed lm-eval.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count calls and tokens; call nothing.")] = False,
    display: Annotated[
        Text, typer.Option(metavar="FORM", help="rich, plain, json or none; by default by terminal.")
    ] = None,
) -> None:
    """Ask a model every prompt of a file, score the answers, and make a report page.

    Run again after a stop of any kind, it goes on where it was and pays only for what is missing. Exit status: 0 all
    rows answered, 1 failed, 2 wrong usage, 3 done with row errors, 4 stopped at a cap, 130 interrupted.
    """
    from steelyard.cli.eval.execute import dry, go
    from steelyard.cli.eval.request import Flags, request_of

    given: dict[str, Any] = {key: value for key, value in locals().items() if value not in (None, [])}
    flags = Flags(given)
    request, folder = request_of(flags)
    if dry_run:
        raise typer.Exit(dry(request, folder, display, fresh=fresh))
    raise typer.Exit(go(request, folder, display, sign_key, fresh=fresh))
