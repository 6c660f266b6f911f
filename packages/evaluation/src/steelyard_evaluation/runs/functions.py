"""A run and a comparison as one call each, for programs and notebooks: `steelyard.evaluate` and `steelyard.compare`.

`steelyard eval run` and `eval compare` do the same, with options in place of arguments.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import yaml

from steelyard_common.bounded_yaml import load
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge, read_whole
from steelyard_evaluation.report.comparison.runs import ComparedRuns
from steelyard_evaluation.runs import notation
from steelyard_evaluation.runs.compare import compare_runs
from steelyard_evaluation.runs.context import RunResult
from steelyard_evaluation.runs.folder import RUN_FILE, RunFolder
from steelyard_evaluation.runs.request import KIND, RubricSpec, RunRequest, SourceSpec, from_document
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.tasks import load_task


def evaluate(
    prompts: str | PathLike[str] | RunRequest,
    *,
    model: str | None = None,
    url: str | Sequence[str] = (),
    rubrics: Sequence[str] = (),
    template: str | None = None,
    sampling: Mapping[str, JsonValue] | None = None,
    output: str | PathLike[str] | None = None,
) -> RunResult:
    """Ask a model every prompt, verify and score the answers, and write the report page.

    The same call after any end goes on with the run, and asks only for the answers that are missing. It may also be
    made where an event loop runs, as in a notebook.

    `prompts` is a prompt file, a dataset of the hub (`hf:NAME`), a task file (`.yaml`), the folder of a begun run, or
    a RunRequest, which has all options. The other arguments replace what it says: `url` is the base URL of an
    OpenAI-compatible endpoint, or several of replicas; `rubrics` are names such as `exact-match`; `template` is
    Jinja text over the columns of a row; `sampling` holds parameters of the requests, such as `temperature`;
    `output` is the folder of the run, by default one below `runs` that is named after the request.

    Raises SteelyardError: UsageError for a request that is wrong, EvaluationFailed, RunFailed or ReportFailed for a
    run that cannot go on now. Rows without an answer raise nothing; `result.manifest.rows` counts them.
    """
    request, folder = (prompts, None) if isinstance(prompts, RunRequest) else read_request(fspath(prompts))
    urls = []
    for text in (url,) if isinstance(url, str) else url:
        try:
            urls.append(notation.base_url(text))
        except ValueError as error:
            raise UsageError(f"url {text}: {error}") from error
    prompt = request.prompt
    if template is not None:
        prompt = replace(prompt, template=template, template_name="template", template_line=1)
    if sampling is not None:
        prompt = replace(prompt, sampling={**prompt.sampling, **sampling})
    request = replace(
        request,
        model=request.model if model is None else model,
        urls=tuple(urls) or request.urls,
        rubrics=tuple(map(RubricSpec, rubrics)) or request.rubrics,
        prompt=prompt,
    )
    for name, value in (("model", request.model), ("url", request.urls)):
        if not value:
            raise UsageError(f"{name}: is missing")
    work = run(request, folder if output is None else Path(output))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "evaluate") as thread:  # in this one a loop runs, and cannot run another
        return thread.submit(asyncio.run, work).result()


def compare(
    *runs: str | PathLike[str] | RunResult, rubric: str | None = None, cluster_by: str | None = None
) -> ComparedRuns:
    """Compare runs over the same rows with the first of them, row by row; `print` shows the result in sentences.

    Each run is the folder of one that was scored, or what `evaluate` returned. `rubric` is by default the one that
    leads the first run; `cluster_by` names the column that says which rows are not independent. Raises UsageError
    that says what differs where runs cannot be compared.
    """
    paths = [run.folder.path if isinstance(run, RunResult) else Path(run) for run in runs]
    return compare_runs(paths, rubric, cluster_by)


def read_request(prompts: str) -> tuple[RunRequest, Path | None]:
    """Return the request that a prompt file, task file, dataset or begun run stands for, and the folder of the last."""
    path = Path(prompts)
    if path.is_dir():
        return RunFolder(path).request(), path
    if path.suffix not in {".yaml", ".yml"}:
        return RunRequest(SourceSpec(prompts), model="", urls=()), None
    try:
        return parse_request(read_whole(path).decode(), path)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (TooLarge, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not a task file: {error}") from error


def parse_request(text: str, path: Path) -> tuple[RunRequest, Path | None]:
    """Return the request that a YAML file holds, a task or the record of a run, and the folder of a begun run."""
    try:
        document = load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        document = None  # the task's own reader says where
    if isinstance(document, dict) and document.get("kind") == KIND:
        return from_document(document, str(path)), path.parent if path.name == RUN_FILE else None
    return load_task(path), None
