"""lm-eval's own evaluation around a model that makes no calls: it hands its requests out and gets the answers back.

So the requests, the filters, the metrics and the standard errors are lm-eval's own, of a task that is built once.
Everything of lm-eval is imported in here; `lm_eval.process` runs it in a process of its own.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.lm_eval.documents import (
    MOST_TEXT,
    Document,
    find_shares,
    make_document,
    share_bounds,
)
from steelyard_evaluation.runs.lm_eval.task_name import MISSING, NoLmEval, TaskName
from steelyard_evaluation.runs.prompts.render import GENERATE, LIKELIHOOD, ROLLING

Exchange = Callable[[Sequence["Request"]], Sequence[JsonValue]]
"""A function from the requests of a task to their answers: text, (log-likelihood, greedy), or None for no answer."""
MAX_GEN_TOKS = 256  # what lm-eval's own API models send where a task says nothing
SEED = 1234
_NOTHING: Mapping[str, JsonValue] = {
    GENERATE: "",
    LIKELIHOOD: (float("-inf"), False),
    ROLLING: float("-inf"),
}
"""Substitutes for missing answers while lm-eval filters; a document with a missing answer is not scored."""


@dataclass(frozen=True)
class Request:
    """One request of lm-eval's."""

    kind: str
    """generate_until, loglikelihood or loglikelihood_rolling."""
    task: str
    document: int
    number: int
    """Number among the requests of its document: the choice of a question."""
    prompt: JsonValue
    """Text, or messages."""
    context: int = 0
    """Characters of the prompt before the continuation whose likelihood is asked."""
    settings: dict[str, JsonValue] = field(default_factory=dict)


class _Messages(str):
    """The prompt that a chat template made, as JSON. Text that merely resembles it is not such a prompt."""

    __slots__ = ()


def evaluate(name: TaskName, exchange: Exchange) -> dict[str, JsonValue]:
    """lm-eval's results for the answers that `exchange` gives, and the score of every document.

    UsageError says why there are none.
    """
    try:
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise NoLmEval(f"--task lm_eval:{name.task}: {MISSING}") from error
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=name.include_path or None)
    known = {*manager.all_tasks}
    if name.task not in known:
        raise UsageError(_unknown(name, known))
    loaded: dict[str, JsonValue] = {}
    load = manager.load

    def keep(tasks: JsonValue) -> JsonValue:
        loaded.update(load(tasks))
        return loaded

    # `simple_evaluate` does not give its task objects back, and their filters and metrics are needed after
    # it.
    manager.load = keep
    evaluation = _Evaluation(name, exchange, loaded)
    results: dict[str, JsonValue] = simple_evaluate(
        model=_model(evaluation),
        tasks=[name.task],
        num_fewshot=name.num_fewshot,
        limit=name.limit,
        task_manager=manager,
        apply_chat_template=name.chat,
        log_samples=True,
    )
    return evaluation.outcome(results)


@dataclass
class _Evaluation:
    """The requests of all tasks, asked together when lm-eval asks for the first kind of them."""

    name: TaskName
    exchange: Exchange
    loaded: Mapping[str, JsonValue]
    instances: list[JsonValue] = field(default_factory=list)
    answers: Sequence[JsonValue] = ()
    starts: dict[str, int] = field(default_factory=dict)
    """The number of the first request of each kind."""
    failed: dict[str, set[int]] = field(default_factory=dict)
    """Documents, by task, that lack an answer."""

    def respond(self, kind: str, instances: Sequence[JsonValue]) -> list[JsonValue]:
        # lm-eval asks kind after kind; asked together, all requests are one run with one progress.
        if not self.instances:
            self._ask()
        start = self.starts[kind]
        there = self.answers[start : start + len(instances)]
        return [_NOTHING[kind] if answer is None else _convert(kind, answer) for answer in there]

    def _ask(self) -> None:
        """Requests in the order and number in which lm-eval asks them, kind after kind."""
        by_kind: dict[str, list[JsonValue]] = {}
        for task in self.loaded["tasks"].values():
            for instance in task.instances:
                # lm-eval clones a request by its repeats before it asks; the order here has to be the very
                # same.
                by_kind.setdefault(instance.request_type, []).extend([instance] * instance.repeats)
        for kind, several in by_kind.items():
            self.starts[kind] = len(self.instances)
            self.instances += several
        requests = [_request(instance, chat=self.name.chat) for instance in self.instances]
        self.answers = self.exchange(requests)
        for instance, answer in zip(self.instances, self.answers, strict=True):
            if answer is None:
                self.failed.setdefault(str(instance.task_name), set()).add(int(instance.doc_id))
        for task_name, documents in self.failed.items():
            _leave_out(self.loaded["tasks"][task_name], documents)

    def _label(self, task: str, instances: Sequence[JsonValue]) -> str:
        """The target of a document, whether it was answered or not; of a choice by number its text."""
        target = self.loaded["tasks"][task].doc_to_target(instances[0].doc)
        choices = [instance.args[1] for instance in instances if instance.request_type == LIKELIHOOD]
        if isinstance(target, int) and len(choices) > 1 and 0 <= target < len(choices):
            return str(choices[target]).strip()[:MOST_TEXT]
        return str(target)[:MOST_TEXT]

    def outcome(self, results: dict[str, JsonValue]) -> dict[str, JsonValue]:
        rows: dict[tuple[str, int], list[int]] = {}
        for number, instance in enumerate(self.instances):
            rows.setdefault((str(instance.task_name), int(instance.doc_id)), []).append(number)
        labels = {key: self._label(key[0], [self.instances[number] for number in rows[key]]) for key in rows}
        samples = results.pop("samples", {})
        shares = find_shares(self.loaded["tasks"], samples, results["results"])
        by_document: dict[tuple[str, int], list[JsonValue]] = {}
        for task, several in samples.items():
            for sample in several:
                by_document.setdefault((str(task), int(sample["doc_id"])), []).append(sample)
        documents: list[Document] = [
            make_document(key, (numbers, labels[key]), by_document.get(key, ()), results["results"], shares)
            for key, numbers in rows.items()
        ]
        failed = {task: len(missing) for task, missing in self.failed.items()}
        kept = ("results", "groups", "group_subtasks", "versions", "n-shot", "n-samples", "higher_is_better")
        return {
            "results": {key: results[key] for key in kept if key in results},
            "shares": shares,
            "bounds": share_bounds(results["results"], self.loaded, shares, failed),
            "documents": documents,
        }


def _leave_out(task: JsonValue, documents: set[int]) -> None:
    """Let lm-eval score the other documents of a task alone."""
    # Left in, a document without an answer would be scored on what stands for it: wrong in some metrics,
    # right in others.
    everyone = task.doc_iterator

    def remaining_pairs(**arguments: JsonValue) -> Iterator[tuple[int, JsonValue]]:
        return (pair for pair in everyone(**arguments) if pair[0] not in documents)

    task.doc_iterator = remaining_pairs


def _convert(kind: str, answer: JsonValue) -> JsonValue:
    """Converts an answer to the type that lm-eval expects for this kind of request."""
    match kind:
        case "loglikelihood":
            return float(answer[0]), bool(answer[1])
        case "loglikelihood_rolling":
            return float(answer[0])
    return answer


def _unknown(name: TaskName, known: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.task, sorted(known), 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {len(known):,} others"
    return f"--task lm_eval:{name.task}: the installed lm-eval has no such task; {hint}"


def _model(evaluation: _Evaluation) -> JsonValue:
    """An LM of lm-eval's that hands its requests to `evaluation`."""
    from lm_eval.api.model import LM

    class Handing(LM):  # type: ignore[misc]  # lm-eval has no types
        # lm-eval names its caches of requests by this.
        tokenizer_name = ""

        def generate_until(self, instances: Sequence[JsonValue], **_: JsonValue) -> list[JsonValue]:
            return evaluation.respond(GENERATE, instances)

        def loglikelihood(self, instances: Sequence[JsonValue], **_: JsonValue) -> list[JsonValue]:
            return evaluation.respond(LIKELIHOOD, instances)

        def loglikelihood_rolling(self, instances: Sequence[JsonValue], **_: JsonValue) -> list[JsonValue]:
            return evaluation.respond(ROLLING, instances)

        def apply_chat_template(self, chat: Sequence[JsonValue], add_generation_prompt: bool = True) -> str:
            # A string, because lm-eval treats prompts as text on their way; the subclass keeps it apart from
            # a prompt in JSON.
            return _Messages(orjson.dumps(list(chat)).decode())

    return Handing()


def _request(instance: JsonValue, *, chat: bool) -> Request:
    place = str(instance.task_name), int(instance.doc_id), int(instance.idx)
    if instance.request_type == GENERATE:
        prompt, settings = instance.args[:2]
        if len(instance.args) > 2:
            raise UsageError(
                f"--task lm_eval:{place[0]}: asks about images or sounds, which are not sent yet"
            )
        return Request(
            GENERATE, *place, _prompt(prompt, place[0], chat=chat), 0, generation_settings(settings)
        )
    if chat:
        raise UsageError(
            f"--task lm_eval:{place[0]}: needs likelihoods, which chat endpoints do not report; leave out chat=true"
        )
    if instance.request_type == ROLLING:
        return Request(ROLLING, *place, instance.args[0])
    context, continuation = instance.args
    # Blanks belong to the word behind them, as in lm-eval.
    return Request(LIKELIHOOD, *place, context + continuation, len(context.rstrip()))


def generation_settings(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Parameters of a request from a task's generation_kwargs, as lm-eval's API models make them; all stops stay."""
    settings = dict(given)
    # A parameter of Hugging Face's generation that endpoints do not know; temperature says the same.
    settings.pop("do_sample", None)
    until = settings.pop("until", None)
    most = settings.pop("max_gen_toks", MAX_GEN_TOKS)
    sent: dict[str, JsonValue] = {
        "max_tokens": settings.pop("max_tokens", None) or most,
        "temperature": settings.pop("temperature", 0),
        # The seed that lm-eval's own API models send by default.
        "seed": SEED,
    }
    stops = [until] if isinstance(until, str) else list(until or [])
    if stops:
        sent["stop"] = stops
    return sent | settings


def _prompt(context: JsonValue, task: str, *, chat: bool) -> JsonValue:
    """Messages where the chat template made them; else text, whatever it resembles."""
    if isinstance(context, _Messages):
        return orjson.loads(str(context))
    if chat:
        raise UsageError(
            f"--task lm_eval:{task}: builds prompts without the chat template; leave out chat=true"
        )
    return str(context)
