"""The request of `steelyard eval run`: what a task file or a begun run says, overridden by the options."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from steelyard.cli.eval import option_values
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.table_files import Format
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.judge.spec import CRITERIA, SAMPLING, JudgeSpec
from steelyard_evaluation.runs.request import (
    Limits,
    PromptSpec,
    RubricSpec,
    RunRequest,
    ServeSpec,
    SourceSpec,
)
from steelyard_evaluation.runs.rubric_names import VERDICT, reads_verdicts
from steelyard_evaluation.runs.spending.prices import PriceSpec


@dataclass(frozen=True)
class Flags:
    """The flags that were given."""

    given: Mapping[str, JsonValue]

    def take(self, **names: str) -> dict[str, JsonValue]:
        """Fields by the flags that set them, of those that were given."""
        return {field: self.given[flag] for field, flag in names.items() if flag in self.given}

    def check_choice(self, flag: str, allowed: tuple[str, ...]) -> None:
        value = self.given.get(flag)
        if value is not None and value not in allowed:
            names = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise UsageError(f"--{flag.replace('_', '-')} {value}: should be {names}")


def request_from_flags(flags: Flags) -> tuple[RunRequest, Path | None]:
    """Return the request, and its folder where one is known. UsageError says what is missing or wrong."""
    flags.check_choice("api", ("chat", "completions"))
    flags.check_choice("format", get_args(Format))
    flags.check_choice("bad_rows", ("skip", "abort"))
    for flag in SERVING:
        if flag in flags.given and "serve" not in flags.given:
            raise UsageError(f"--{flag.replace('_', '-')}: needs --serve")
    check_judging(flags)
    base, folder = _base(flags)
    request = replace(base, **_changes(flags, base))
    if not request.model:
        raise UsageError("--model: is missing; it should be the name that the endpoint gives the model")
    if not request.urls:
        raise UsageError(
            "--url: is missing; it should be the endpoint's base URL, such as http://host:8000/v1; or give --serve "
            "FOLDER, with the model's weights"
        )
    return _with_prices(flags, request), flags.given.get("output") or folder


def _changes(flags: Flags, base: RunRequest) -> dict[str, JsonValue]:
    changes = flags.take(
        model="model", api_key_env="api_key_env", replications="replications", cluster_by="cluster_by"
    )
    several = flags.take(reducers="reducer", group_by="group_by")
    changes |= {name: tuple(value) for name, value in several.items()}
    changes["source"] = source = _source(flags, base.source)
    changes["prompt"] = _prompt(flags, base.prompt, source.columns)
    changes["limits"] = _limits(flags, base)
    if "url" in flags.given:
        # Another URL is another endpoint: what was said to be the same model at the earlier one does not
        # hold.
        changes |= {"urls": option_values.urls(flags.given["url"]), "same_model_at": ()}
    if "serve" in flags.given or base.serve is not None:
        changes |= _server_fields(flags, base.serve)
    if "same_model_at" in flags.given:
        changes["same_model_at"] = option_values.urls(flags.given["same_model_at"], "--same-model-at")
    if "rubric" in flags.given:
        changes["rubrics"] = tuple(map(RubricSpec, flags.given["rubric"]))
    if "bad_rows" in flags.given:
        changes["policy"] = flags.given["bad_rows"].capitalize()
    if "judge_model" in flags.given:
        changes |= make_judges(flags, replace(base, **changes))
    return changes


SERVING = ("runner", "gpus", "server_arg")


def _server_fields(flags: Flags, base: ServeSpec | None) -> dict[str, JsonValue]:
    """The server of the run, and the address by which the run knows it."""
    from steelyard.local.serving.plan import model_name, usual_url

    for other in ("url", "same_model_at"):
        if other in flags.given:
            raise UsageError(f"--serve: starts a server itself; leave out --{other.replace('_', '-')}")
    folder = Path(flags.given.get("serve") or (base.folder if base else "")).resolve()
    serve = replace(
        base or ServeSpec(str(folder)), folder=str(folder), **flags.take(runner="runner", gpus="gpus")
    )
    if "server_arg" in flags.given:
        serve = replace(serve, arguments=tuple(flags.given["server_arg"]))
    # A begun run keeps the name that its answers were asked by, whatever the folder is called now.
    name = {} if "model" in flags.given or base is not None else {"model": model_name(folder)}
    # A URL that follows from the folder, since the identity of a run counts it: a free port would change with
    # each start.
    return {"serve": serve, "urls": (usual_url(folder),), "same_model_at": (), **name}


JUDGING = (
    "judge_url",
    "judge_criteria",
    "judge_prompt",
    "judge_against",
    "judge_times",
    "judge_max_tokens",
    "judge_api_key_env",
)


def check_judging(flags: Flags) -> None:
    """UsageError for options of a judge if none is named."""
    for flag in JUDGING:
        if flag in flags.given and "judge_model" not in flags.given:
            raise UsageError(f"--{flag.replace('_', '-')}: needs --judge-model")


def make_judges(flags: Flags, request: RunRequest) -> dict[str, JsonValue]:
    """The judges of the flags, and the rubrics with the one that reads what they say."""
    changes: dict[str, JsonValue] = {}
    if "judge_prompt" in flags.given:
        changes["template"] = option_values.read("--judge-prompt", flags.given["judge_prompt"])
    if "judge_max_tokens" in flags.given:
        changes["sampling"] = {**SAMPLING, "max_tokens": flags.given["judge_max_tokens"]}
    changes |= flags.take(against="judge_against", times="judge_times")
    urls = option_values.urls(flags.given.get("judge_url", []), "--judge-url") or request.urls
    criteria = option_values.read_text("--judge-criteria", flags.given.get("judge_criteria", CRITERIA))
    judges = tuple(
        JudgeSpec(
            model=model,
            urls=urls,
            name="judge" if number == 0 else f"judge-{number + 1}",
            api_key_env=flags.given.get("judge_api_key_env", request.api_key_env),
            criteria=criteria,
            target=request.prompt.target,
            **changes,
        )
        for number, model in enumerate(flags.given["judge_model"])
    )
    more = () if reads_verdicts(request.rubrics) else (RubricSpec(VERDICT),)
    return {"judges": judges, "rubrics": (*request.rubrics, *more)}


def _base(flags: Flags) -> tuple[RunRequest, Path | None]:
    """The request that the options override: a task's, a begun run's, or an empty one over the prompt file."""
    prompts = flags.given.get("prompts")
    if "task" in flags.given:
        from steelyard_evaluation.runs.lm_eval.tasks import task_request

        if prompts is not None:
            raise UsageError(f"--task {flags.given['task']}: brings its own rows; leave out {prompts}")
        return task_request(flags.given["task"]), None
    if prompts is None:
        raise UsageError(
            "PROMPTS: is missing; it should be a prompt file, a task file or the folder of a run"
        )
    path = Path(prompts)
    if path.is_dir():
        return RunFolder(path).request(), path
    if path.suffix in {".yaml", ".yml"}:
        from steelyard_evaluation.runs.functions import parse_request

        return parse_request(option_values.read("PROMPTS", path), path)
    return RunRequest(SourceSpec(prompts), model="", urls=()), None


def _source(flags: Flags, source: SourceSpec) -> SourceSpec:
    columns = {**source.columns, **option_values.columns(flags.given.get("map", []))}
    return replace(
        source, columns=columns, **flags.take(format="format", limit="limit", sample="sample", seed="seed")
    )


def _prompt(flags: Flags, prompt: PromptSpec, columns: Mapping[str, str]) -> PromptSpec:
    given = flags.given
    changes: dict[str, JsonValue] = flags.take(api="api")
    if "prompt" in given and "template" in given:
        raise UsageError("--prompt and --template: give one of them")
    if "prompt" in given:
        changes |= {"template": given["prompt"], "template_name": "--prompt", "template_line": 1}
    if "template" in given:
        text = option_values.read("--template", given["template"])
        changes |= {"template": text, "template_name": str(given["template"]), "template_line": 1}
    if "system" in given:
        changes["system"] = option_values.read_text("--system", given["system"])
    if "few_shot" in given:
        changes["few_shot"] = _rows(given["few_shot"], columns)
    sampling = flags.take(temperature="temperature", max_tokens="max_tokens", top_p="top_p", stop="stop")
    changes["sampling"] = {**prompt.sampling, **sampling, **option_values.parameters(given.get("param", []))}
    return replace(prompt, **changes)


def _rows(path: Path, columns: Mapping[str, str]) -> tuple[dict[str, JsonValue], ...]:
    """Few-shot rows, their columns renamed as those of the prompts."""
    from steelyard_evaluation.runs.prompts.inputs import open_rows

    try:
        rows = open_rows(SourceSpec(str(path)))
    except UsageError as error:
        raise UsageError(f"--few-shot {error}") from error
    if not rows.count:
        raise UsageError(f"--few-shot {path}: has no rows to show")
    if rows.count > 1000:
        raise UsageError(
            f"--few-shot {path}: has {rows.count} rows; all of them would stand before each prompt"
        )
    return tuple(
        {**row, **{new: row[old] for new, old in columns.items() if old in row}}
        for batch in rows.batches()
        for row in to_rows(batch)
    )


def with_budget(flags: Flags, request: RunRequest) -> RunRequest:
    """The request with the caps and prices of the flags."""
    return _with_prices(flags, replace(request, limits=_limits(flags, request)))


def _limits(flags: Flags, base: RunRequest) -> Limits:
    given = flags.given
    changes: dict[str, JsonValue] = flags.take(
        retries="retries", max_tokens_total="max_tokens_total", max_cost="max_cost", max_stops="max_stops"
    )
    if not math.isfinite(given.get("max_cost", 0)):
        # Click's least number lets NaN pass, and a cap of NaN is never reached.
        raise UsageError(f"--max-cost {given['max_cost']}: should be a number")
    if "concurrency" in given:
        changes["concurrency"] = option_values.concurrency(given["concurrency"])
    if "timeout" in given:
        changes["timeout"] = option_values.seconds("--timeout", given["timeout"])
    if "wait_for_server" in given:
        changes["wait_for_server"] = option_values.seconds("--wait-for-server", given["wait_for_server"])
    if "max_time" in given:
        changes["max_time"] = option_values.seconds("--max-time", given["max_time"])
    return replace(base.limits, **changes)


def _with_prices(flags: Flags, request: RunRequest) -> RunRequest:
    """Prices are of a model, so its name has to be known first."""
    if "prices" not in flags.given:
        return request
    path = flags.given["prices"]
    judges = tuple(replace(judge, prices=_judge_price(path, judge, request)) for judge in request.judges)
    prices = option_values.prices(path, request.model)
    return replace(request, limits=replace(request.limits, prices=prices), judges=judges)


def _judge_price(path: Path, judge: JudgeSpec, request: RunRequest) -> PriceSpec | None:
    """The price of a judge, by its model's name; without a cap of cost it may be missing."""
    if judge.model == request.model:
        return option_values.prices(path, judge.model)
    return option_values.find_prices(path, judge.model, needed=request.limits.max_cost is not None)
