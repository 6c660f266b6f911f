"""The answers of one run, from its rows to its verified output: prepare the folder, call, verify.

`runs.run` calls this for a run of the command line, and `runs.judge` for the runs of its judges.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import Caps
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.engine.manifest import Manifest, read_manifest
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.record import record_server
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.runs.calls import call_all
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed, RunResult
from steelyard_evaluation.runs.folder import INPUTS_FILE
from steelyard_evaluation.runs.lm_eval.tasks import check_asked_whole
from steelyard_evaluation.runs.plan import api_key, check_urls, make_plan, new_epoch
from steelyard_evaluation.runs.possible_answers import check_choices
from steelyard_evaluation.runs.probe import prepare_plan
from steelyard_evaluation.runs.prompts.inputs import first_rows, write_dataset
from steelyard_evaluation.runs.prompts.render import check_rows
from steelyard_evaluation.runs.resolve import ResolvedRequest, check_grouping, check_judges, check_unchanged
from steelyard_evaluation.runs.rubric_names import check_names, check_verdicts
from steelyard_evaluation.runs.spending.accounts import MODEL, accounts, check_prices, spending, sum_others
from steelyard_evaluation.storage.store import ObjectMissing, StorageError, StorageFull
from steelyard_schema.faults import error_text

CAPS_REACHED = frozenset({"CapReached", "SpendCapReached"})
"""Reasons of an end at a cap: of the run, or of the service that it asks."""


@contextmanager
def storage_failures(location: str) -> Iterator[None]:
    """Raise RunFailed in place of what storage raises; `location` is named where an error names no file."""
    try:
        yield
    except StorageFull as error:
        raise RunFailed(f"{error}. Make room and run the same command again: it goes on") from error
    except StorageError as error:
        raise RunFailed(str(error)) from error
    # FileStore raises StorageError; a scratch folder or a prompt file raises the system's own.
    except OSError as error:
        raise RunFailed(f"{error.filename or location}: {error.strerror or error}") from error


async def check_request(resolved: ResolvedRequest, sign_key: Path | None = None) -> None:
    """Raise UsageError for what can be known to be wrong before a call is paid for."""
    check_urls(resolved.request)
    check_names(resolved.request.rubrics)
    check_verdicts(resolved.request)
    check_asked_whole(resolved.request)
    check_grouping(resolved)
    check_judges(resolved)
    check_prices(resolved.request)
    await asyncio.to_thread(check_choices, resolved)
    if sign_key is not None:
        from steelyard_evaluation.report.evidence.attestation import signing_key

        await asyncio.to_thread(signing_key, sign_key)
    if resolved.request.rubrics:
        from steelyard_evaluation.runs.scores import check_rubrics

        await asyncio.to_thread(check_rubrics, resolved.request, resolved.columns)


async def collect(resolved: ResolvedRequest, context: RunContext) -> RunResult:
    """Answer every row and verify the output; the result has no manifest where a cap was reached.

    EvaluationFailed, RunFailed, UsageError and Interrupted say why it cannot be.
    """
    # A verified run makes no calls: it can be scored again without the key.
    key = None if resolved.folder.verified else api_key(resolved.request, context.environment)
    plan = make_plan(resolved.request, resolved.identity, resolved.columns, key)
    # First: what was spent is read from the folder, whose run.yaml may be missing.
    await _settle_folder(resolved, plan)
    plan = replace(plan, caps=await asyncio.to_thread(_budget, resolved, plan.caps, context))
    try:
        manifest, resumed = await _answers(resolved, plan, context)
    except Fenced as error:  # while it asked, or when every row was answered and it verified them
        raise RunFailed(
            f"{resolved.folder.path}: another command has taken this run over and goes on with it; this one ends"
        ) from error
    except EvaluationFailed as error:
        # A cap that is reached is an end that the user asked for: a result without a report, and no error.
        if error.code in CAPS_REACHED:
            spent = await read_spending(resolved)
            return RunResult(resolved.folder, None, stopped=error.message, spending=spent)
        raise
    return RunResult(resolved.folder, manifest, resumed)


async def read_spending(resolved: ResolvedRequest) -> dict[str, JsonValue]:
    """Return what the model and its judges have cost so far, as report.json has it."""
    return spending(await asyncio.to_thread(accounts, resolved.folder, resolved.request))


def _budget(resolved: ResolvedRequest, caps: Caps, context: RunContext) -> Caps:
    """The caps, with what others took from them: judges of earlier attempts, and the run that this one judges."""
    others = context.others + sum_others(accounts(resolved.folder, resolved.request), MODEL)
    left = None if context.ends_at is None else max(0.0, context.ends_at - context.clock())
    return replace(caps, others=others, seconds_left=left)


async def _answers(resolved: ResolvedRequest, plan: Plan, context: RunContext) -> tuple[Manifest, int]:
    """The manifest of the verified output, and the number of rows that earlier attempts had answered."""
    try:
        manifest = await read_manifest(resolved.folder.outputs)
    except ObjectMissing:
        # Before the first call: answers that are paid for are never without the record of who gave them.
        for server in resolved.servers:
            await record_server(resolved.folder.outputs, server)
        resumed = await call_all(resolved, await prepare_plan(resolved, plan, context), context)
        # Verification would take long after Ctrl-C; nothing is lost, since every answer is durable.
        if context.stop.is_set():
            raise Interrupted(
                f"stopped; every row is answered, to go on: steelyard eval run {resolved.folder.path}"
            ) from None
        context.listener.step("verifying")
        epoch = await new_epoch(resolved.folder.outputs, context.now())
        return await verify(plan, resolved.folder.inputs, resolved.folder.outputs, epoch), resumed
    except ValueError as error:
        raise UsageError(f"{resolved.folder.manifest}: is damaged: {error_text(error)}") from error
    context.listener.begins(resolved.folder, resolved.total, resolved.total)
    return manifest, resolved.total


async def _settle_folder(resolved: ResolvedRequest, plan: Plan) -> None:
    """Write `run.yaml` and the dataset before anything is called; UsageError when the folder holds another run."""
    folder = resolved.folder
    # The folder has no rows yet, or an earlier command died before it had written them.
    if not await asyncio.to_thread(check_unchanged, resolved):
        few = await asyncio.to_thread(first_rows, resolved.rows, resolved.source)
        # Before the dataset is written: a template with a wrong column would fail every row, after minutes of
        # copying.
        check_rows(plan.request, few, resolved.request.source.location)
        path = await asyncio.to_thread(write_dataset, resolved.rows, resolved.source, folder)
        try:
            await folder.inputs.put_file(INPUTS_FILE, path)
        finally:
            path.unlink(missing_ok=True)
    # The report of a run names its run.yaml: until there is another report, both stay as they are.
    if folder.begun and folder.verified and folder.numbers.exists():
        return
    # Last: a folder with run.yaml has its rows, so `eval run FOLDER` can go on from there.
    await folder.write(resolved.request)
