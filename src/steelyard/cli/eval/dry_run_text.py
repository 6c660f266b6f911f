"""The text of `steelyard eval run --dry-run`: calls, tokens and cost of the model and of each judge."""

from collections.abc import Sequence

from steelyard.cli.eval.wording import count
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.dry_run import BYTES_PER_TOKEN, ExpectedCalls, as_json
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.resolve import ResolvedRequest


def dry_run_lines(
    resolved: ResolvedRequest, model: ExpectedCalls, judges: Sequence[ExpectedCalls]
) -> list[str]:
    """Return the calls that are left and their maximum cost; with judges, by the name of the model and in total."""
    total = sum(expected.calls for expected in (model, *judges))
    lines = [f"{resolved.folder.path}: {count(total, 'call')} to make, none was made"]
    if model.done:
        lines.append(f"{count(model.done)} of {count(resolved.total)} are answered already")
    if model.fault_count:
        lines += [f"{count(model.fault_count, 'row')} cannot be asked:", *model.faults]
    if not judges:
        return lines + _amounts(model, "--max-tokens")
    lines.append(f"model {model.model}: {count(model.calls, 'call')}")
    lines += [f"  {line}" for line in _amounts(model, "--max-tokens")]
    for spec, expected in zip(resolved.request.judges, judges, strict=True):
        done = f", {count(expected.done)} more are answered already" if expected.done else ""
        lines.append(f"{_title(expected)}: {count(expected.calls, 'call')}{_judge_calls_reason(spec)}{done}")
        lines += [f"  {line}" for line in _amounts(expected, "--judge-max-tokens")]
    costs = [expected.cost for expected in (model, *judges)]
    known = [cost for cost in costs if cost is not None]
    if known and len(known) == len(costs):
        lines.append(f"together about {sum(known):.4g} at most")
    return lines


def dry_run_json(model: ExpectedCalls, judges: Sequence[ExpectedCalls]) -> dict[str, JsonValue]:
    """The numbers of the model, and of each judge under `judges`."""
    return {
        **as_json(model),
        "judges": [{"name": judge.name, "model": judge.model, **as_json(judge)} for judge in judges],
    }


def _title(expected: ExpectedCalls) -> str:
    """The judge's model, and its name where that says more than that it is the judge."""
    name = "" if expected.name in {"judge", expected.model} else f" ({expected.name})"
    return f"judge {expected.model}{name}"


def _judge_calls_reason(spec: JudgeSpec) -> str:
    """Return why there are more calls to a judge than answers."""
    reasons = ["each pair in both orders"] if spec.pairwise else []
    if spec.times > 1:
        reasons.append(f"{spec.times} times each")
    return f" ({', '.join(reasons)})" if reasons else ""


def _amounts(expected: ExpectedCalls, flag: str) -> list[str]:
    """Lines on tokens and cost; `flag` is the option that limits the answers."""
    how = f"their bytes, at {BYTES_PER_TOKEN} a token"
    if expected.unbounded_answers:
        how += ", without the answers that it reads: unknown without --max-tokens"
    most = expected.completion_tokens
    lines = [
        f"about {count(expected.prompt_tokens, 'token')} of requests ({how})",
        f"tokens of answers: unknown without {flag}"
        if most is None
        else f"at most {count(most, 'token')} of answers ({flag})",
    ]
    if expected.cost is not None:
        lines.append(f"about {expected.cost:.4g} at most")
    return lines
