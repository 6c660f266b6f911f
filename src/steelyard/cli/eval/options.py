"""The options of `steelyard eval`, in groups: `run` takes them all, `score` those of scoring, judges and caps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

Text = str | None
Texts = list[str] | None
Number = int | None
Real = float | None
File = Path | None

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
SignKeyOption = Annotated[
    File,
    typer.Option(metavar="FILE", help="Ed25519 private key (PEM) that signs the attestation of the report."),
]


@dataclass(frozen=True)
class EndpointOptions:
    """The endpoint, the model, and the folder of the run."""

    url: Annotated[
        Texts,
        typer.Option(
            metavar="URL",
            help="Base URL of the endpoint, such as http://host:8000/v1. May be repeated for further replicas of "
            "the same model.",
        ),
    ] = None
    serve: Annotated[
        File,
        typer.Option(
            metavar="FOLDER",
            help="Start a server of the model in this folder, ask it, and stop it afterwards, instead of --url: "
            "vLLM for safetensors with config.json, llama.cpp for GGUF.",
        ),
    ] = None
    runner: Annotated[
        Text, typer.Option(metavar="NAME", help="Server of --serve: vllm, llama.cpp or transformers.")
    ] = None
    gpus: Annotated[
        Number,
        typer.Option(
            metavar="N",
            min=0,
            help="GPUs of --serve. Default: 1 where the runner is installed for GPUs, else 0.",
        ),
    ] = None
    server_arg: Annotated[
        Texts,
        typer.Option(
            metavar="ARGUMENT",
            help="Argument of the server of --serve, such as --server-arg=--max-model-len=4096. May be repeated.",
        ),
    ] = None
    same_model_at: Annotated[
        Texts,
        typer.Option(
            metavar="URL",
            help="Continue a run at this URL: the same model answers there now. May be repeated.",
        ),
    ] = None
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Ask every row again. The folder of an earlier run is renamed, not deleted."
        ),
    ] = False
    model: Annotated[
        Text, typer.Option(metavar="NAME", help="Name of the model, as the endpoint knows it.")
    ] = None
    rubric: Annotated[
        Texts,
        typer.Option(
            metavar="RUBRIC",
            help="How to score the answers, such as exact-match or 'close?rel=0.01'. May be repeated; the first one "
            "leads the report. Without one, answers are collected and not scored.",
        ),
    ] = None
    output: Annotated[
        File,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the run. Default: runs/NAME-ID, where ID is 8 hexadecimal digits made from the request.",
        ),
    ] = None
    api: Annotated[
        Text, typer.Option(metavar="API", help="Endpoint to call: chat or completions. Default: chat.")
    ] = None
    api_key_env: Annotated[
        Text,
        typer.Option(
            metavar="NAME", help="Environment variable that holds the API key. Default: OPENAI_API_KEY."
        ),
    ] = None


@dataclass(frozen=True)
class PromptOptions:
    """The way a row of the prompt file becomes a prompt."""

    format: Annotated[
        Text,
        typer.Option(
            metavar="FORMAT",
            help="Format of the prompt file: parquet, arrow, jsonl or csv. Default: by the ending of its name.",
        ),
    ] = None
    map: Annotated[
        Texts,
        typer.Option(
            metavar="NAME=COLUMN",
            help="Rename a column of the prompt file, such as prompt=question. May be repeated.",
        ),
    ] = None
    prompt: Annotated[
        Text,
        typer.Option(
            metavar="TEXT",
            help="Template of the prompt (Jinja), such as 'Q: {{ question }}'. Default: the column prompt.",
        ),
    ] = None
    template: Annotated[
        File, typer.Option(metavar="FILE", help="File with the template of the prompt (Jinja).")
    ] = None
    system: Annotated[Text, typer.Option(metavar="TEXT", help="System prompt: text, or @FILE.")] = None
    few_shot: Annotated[
        File,
        typer.Option(
            metavar="FILE", help="File with example rows; they stand with their answers before each prompt."
        ),
    ] = None


@dataclass(frozen=True)
class SamplingOptions:
    """Parameters of every request, and the number of answers."""

    temperature: Annotated[
        Real,
        typer.Option(
            metavar="T",
            min=0,
            help="Sampling temperature; 0 takes the most likely token. Default: the endpoint's.",
        ),
    ] = None
    max_tokens: Annotated[
        Number, typer.Option(metavar="N", min=1, help="Maximum tokens per answer. Default: the endpoint's.")
    ] = None
    top_p: Annotated[
        Real,
        typer.Option(
            metavar="P",
            min=0,
            max=1,
            help="Sample from the most likely tokens whose probabilities add up to P. Default: the endpoint's.",
        ),
    ] = None
    stop: Annotated[
        Texts, typer.Option(metavar="TEXT", help="Text at which an answer ends. May be repeated.")
    ] = None
    max_stops: Annotated[
        Number,
        typer.Option(
            metavar="N",
            min=0,
            help="Number of stop texts that the endpoint accepts; answers are cut at further ones on this machine. "
            "Default: 4.",
        ),
    ] = None
    param: Annotated[
        Texts,
        typer.Option(
            metavar="NAME=VALUE",
            help="Any other parameter of the request, such as top_k=40; VALUE is JSON, else text. May be repeated.",
        ),
    ] = None
    replications: Annotated[
        Number, typer.Option(metavar="N", min=1, help="Number of answers per row. Default: 1.")
    ] = None


@dataclass(frozen=True)
class ScoringOptions:
    """The way scores are combined and reported."""

    reducer: Annotated[
        Texts,
        typer.Option(
            metavar="NAME",
            help="How to combine the scores of a row's answers (--replications): mean, majority, best or pass@k. "
            "May be repeated.",
        ),
    ] = None
    group_by: Annotated[
        Texts,
        typer.Option(
            metavar="COLUMN", help="Report the scores for each value of this column, too. May be repeated."
        ),
    ] = None
    cluster_by: Annotated[
        Text,
        typer.Option(
            metavar="COLUMN",
            help="Column that says which rows are not independent: confidence intervals treat rows with the same "
            "value as one cluster.",
        ),
    ] = None


@dataclass(frozen=True)
class RowOptions:
    """The choice of rows."""

    limit: Annotated[Number, typer.Option(metavar="N", min=1, help="Ask only the first N rows.")] = None
    sample: Annotated[Number, typer.Option(metavar="N", min=1, help="Ask only N rows, drawn at random.")] = (
        None
    )
    seed: Annotated[Number, typer.Option(metavar="N", min=0, help="Random seed of --sample. Default: 0.")] = (
        None
    )


@dataclass(frozen=True)
class CallOptions:
    """Concurrency, time limits and retries of the calls."""

    concurrency: Annotated[
        Text,
        typer.Option(
            metavar="N|auto",
            help="Maximum calls in flight per URL, or auto to adapt it to the endpoint. Default: auto.",
        ),
    ] = None
    timeout: Annotated[
        Text, typer.Option(metavar="TIME", help="Time limit of one call, such as 90s or 10m. Default: 10m.")
    ] = None
    wait_for_server: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="How long to wait for an endpoint that refuses connections, such as 90s or 10m. Default: 10m.",
        ),
    ] = None
    retries: Annotated[
        Number, typer.Option(metavar="N", min=0, help="Maximum retries per row. Default: 10.")
    ] = None
    bad_rows: Annotated[
        Text,
        typer.Option(
            metavar="POLICY",
            help="What to do after a row that the endpoint refuses: skip it, or abort the run. Default: skip.",
        ),
    ] = None


@dataclass(frozen=True)
class CapOptions:
    """Limits of the whole run; a run that reaches one stops, and can go on later."""

    max_tokens_total: Annotated[
        Number,
        typer.Option(
            metavar="N",
            min=1,
            help="Stop at this number of tokens, of the model and its judges together. Default: no limit.",
        ),
    ] = None
    max_cost: Annotated[
        Real,
        typer.Option(
            metavar="COST",
            min=0,
            help="Stop at this cost, of the model and its judges together; needs --prices. Default: no limit.",
        ),
    ] = None
    prices: Annotated[
        File,
        typer.Option(
            metavar="FILE",
            help="YAML file with prices per million tokens, as in 'MODEL: {prompt: 0.15, completion: 0.60}'.",
        ),
    ] = None
    max_time: Annotated[
        Text,
        typer.Option(metavar="TIME", help="Stop after this time, such as 90s, 15m or 2h. Default: no limit."),
    ] = None


@dataclass(frozen=True)
class JudgeOptions:
    """Judge models and what they are asked."""

    judge_model: Annotated[
        Texts,
        typer.Option(
            metavar="NAME",
            help="Model that judges every answer, for the rubric judge.Verdict. May be repeated for further judges.",
        ),
    ] = None
    judge_url: Annotated[
        Texts,
        typer.Option(
            metavar="URL", help="Base URL of the judges. May be repeated for replicas. Default: as --url."
        ),
    ] = None
    judge_criteria: Annotated[
        Text,
        typer.Option(
            metavar="TEXT",
            help="What makes an answer correct, in words for the judge: text, or @FILE. Default: it says the same as "
            "the reference answer.",
        ),
    ] = None
    judge_prompt: Annotated[
        File,
        typer.Option(
            metavar="FILE",
            help="File with the judge's prompt (Jinja with question, response, target, criteria and grades). Default: "
            "a prompt that asks for correct or incorrect.",
        ),
    ] = None
    judge_against: Annotated[
        Text,
        typer.Option(
            metavar="COLUMN",
            help="Compare every answer with the one in this column. The judge is asked in both orders, and an answer "
            "wins only if it is preferred in both.",
        ),
    ] = None
    judge_times: Annotated[
        Number,
        typer.Option(
            min=1,
            max=100,
            metavar="N",
            help="Number of times that each answer, or each order of a pair, is judged. Default: 1.",
        ),
    ] = None
    judge_max_tokens: Annotated[
        Number,
        typer.Option(
            min=1, metavar="N", help="Maximum tokens per answer of a judge. Default: the endpoint's."
        ),
    ] = None
    judge_api_key_env: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="Environment variable that holds the judges' API key. Default: as --api-key-env.",
        ),
    ] = None


def list_given(*groups: object) -> dict[str, Any]:
    """Return the options that have a value, by name; `groups` are instances of the classes above."""
    options = {name: value for group in groups for name, value in vars(group).items()}
    # False and [] are what Typer gives for options that were not given.
    return {name: value for name, value in options.items() if value is not None and value != []}
