"""Tasks of an installed lm-eval as runs: `--task lm_eval:NAME`.

lm-eval builds the requests, our engine makes the calls, and lm-eval's own code scores the answers (`lm_eval.rubric`).
`NAME` may have arguments: `lm_eval:arc_easy?num_fewshot=5&limit=100`.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from steelyard_common.durable import rename_durably
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.lm_eval.process import build
from steelyard_evaluation.runs.lm_eval.task_name import TaskName, parse_name
from steelyard_evaluation.runs.prompts.render import GENERATE
from steelyard_evaluation.runs.request import PromptSpec, RubricSpec, RunRequest, SourceSpec, canonical
from steelyard_evaluation.runs.resolve import RUNS

RUBRICS = {"lm_eval.Task", "task"}
"""The rubric that scores these tasks, and its alias."""
SETTINGS = "settings"
"""The column of a row's own parameters, where a group's tasks differ in them."""


def task_request(text: str) -> RunRequest:
    """The requests of a task as a prompt file, and what to ask of it. Blocking: lm-eval loads its data."""
    name = parse_name(text)
    requests = build(name)
    generations = [request for request in requests if request["kind"] == GENERATE]
    settings = {canonical(request["settings"]): request["settings"] for request in generations}
    # A group's tasks may differ in stops or lengths: then each row carries its own parameters.
    alike = len(settings) < 2
    mixed = len(generations) < len(requests)
    prompt = PromptSpec(
        api="loglikelihood" if mixed else "chat" if name.chat else "completions",
        sampling=next(iter(settings.values()), {}) if alike else {},
        settings=None if alike else SETTINGS,
        prefix_token_id=name.prefix_token_id,
        max_length=name.max_length,
    )
    return RunRequest(
        source=SourceSpec(str(_write_prompts(name, _lines(requests, alike=alike)))),
        model="",
        urls=(),
        prompt=prompt,
        rubrics=(RubricSpec(name.reference),),
    )


def check_asked_whole(request: RunRequest) -> None:
    """UsageError for a run that would ask lm-eval's requests in part, or several times: it could not be scored."""
    if not any(rubric.reference.partition("?")[0] in RUBRICS for rubric in request.rubrics):
        return
    source = request.source
    for flag, value in (("--limit", source.limit), ("--sample", source.sample)):
        if value is not None:
            raise UsageError(
                f"{flag} {value}: would leave out requests of lm-eval's task; to ask fewer documents, use "
                "--task 'lm_eval:NAME?limit=N'"
            )
    if request.replications > 1:
        raise UsageError(
            f"--replications {request.replications}: lm-eval's tasks say themselves how often they ask; leave it out"
        )


def _lines(requests: Sequence[Mapping[str, JsonValue]], *, alike: bool) -> Iterator[dict[str, JsonValue]]:
    """The rows of the prompt file; each has its own settings where these are not all alike."""
    for request in requests:
        line = {name: value for name, value in request.items() if name != "settings"}
        yield line if alike else line | {SETTINGS: canonical(request["settings"]).decode()}


def _write_prompts(name: TaskName, lines: Iterator[dict[str, JsonValue]]) -> Path:
    """The prompt file, in a folder named by what it holds."""
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    folder = RUNS / ".tasks" / hashlib.sha256(data).hexdigest()[:12]
    path = folder / f"lm_eval-{name.task.replace('/', '-').replace('.', '-')}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The name says the content, so two processes that write it at once agree; each has a scratch file of its own.
        scratch = folder / f".#{os.getpid()}"
        scratch.write_bytes(data)
        rename_durably(scratch, path)
    return path
