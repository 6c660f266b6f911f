"""Models of lm-eval's that call nobody: one takes down the requests, one gives answers that are there already.

So the requests, the filters, the metrics and the standard errors are lm-eval's own. Everything of lm-eval is imported
in here, and only when a task of its is run.
"""

import contextlib
import io
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from steelyard.errors import UsageError
from steelyard.runs.lm_eval_tasks import MISSING, NoLmEval, TaskName

Json = Any
Answers = Callable[[int, "Request"], Json]
"""From the number of a request to its answer: text, or (log-likelihood, greedy)."""
MAX_GEN_TOKS = 256  # what lm-eval's own API models send where a task says nothing
SEED = 1234


@dataclass(frozen=True)
class Request:
    """One request of lm-eval's."""

    kind: str
    """generate_until or loglikelihood."""
    task: str
    document: int
    number: int
    """Among the requests of its document: the choice of a question."""
    prompt: Json
    """Text, or messages."""
    context: int
    """Characters of the prompt before the continuation whose likelihood is asked."""
    settings: dict[str, Json]


@dataclass(frozen=True)
class Built:
    """The requests of a task, in lm-eval's order."""

    requests: tuple[Request, ...]

    def lines(self) -> Iterator[dict[str, Json]]:
        for request in self.requests:
            yield {
                "prompt": request.prompt,
                "task": request.task,
                "document": request.document,
                "number": request.number,
                "context": request.context,
            }


class _Taken(Exception):
    """All requests of one kind were taken down."""

    def __init__(self, requests: tuple[Request, ...]) -> None:
        super().__init__()
        self.requests = requests


def build(name: TaskName) -> Built:
    """The requests of a task; UsageError says why there are none."""

    def take(requests: tuple[Request, ...]) -> list[Json]:
        raise _Taken(requests)

    try:
        _evaluate(name, take)
    except _Taken as taken:
        if not taken.requests:
            raise UsageError(f"--task lm_eval:{name.task}: has no requests") from None
        return Built(taken.requests)
    raise UsageError(f"--task lm_eval:{name.task}: has no requests")


def score(name: TaskName, answers: Answers) -> dict[str, Json]:
    """What lm-eval's own evaluation finds in these answers: its dictionary of results."""

    def give(requests: tuple[Request, ...]) -> list[Json]:
        return [answers(number, request) for number, request in enumerate(requests)]

    return _evaluate(name, give)


def _evaluate(name: TaskName, respond: Callable[[tuple[Request, ...]], list[Json]]) -> dict[str, Json]:
    try:
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise NoLmEval(f"--task lm_eval:{name.task}: {MISSING}") from error
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    with contextlib.redirect_stderr(io.StringIO()), _quiet():
        manager = TaskManager(include_path=name.include_path or None)
        known = {*manager.all_tasks}
        if name.task not in known:
            raise UsageError(_unknown(name, known))
        found: dict[str, Json] = simple_evaluate(
            model=_model(respond),
            tasks=[name.task],
            num_fewshot=name.num_fewshot,
            limit=name.limit,
            task_manager=manager,
            apply_chat_template=name.chat,
            log_samples=False,
        )
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without bars of progress: the run has its own."""
    before = os.environ.get("TQDM_DISABLE")
    os.environ["TQDM_DISABLE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TQDM_DISABLE"]
        else:
            os.environ["TQDM_DISABLE"] = before


def _unknown(name: TaskName, known: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.task, sorted(known), 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {len(known):,} others"
    return f"--task lm_eval:{name.task}: the installed lm-eval has no such task; {hint}"


def _model(respond: Callable[[tuple[Request, ...]], list[Json]]) -> Json:
    """An LM of lm-eval's that hands its requests to `respond`."""
    from lm_eval.api.model import LM

    class Handing(LM):  # type: ignore[misc]  # lm-eval has no types
        tokenizer_name = ""

        def generate_until(self, instances: Sequence[Json], **_: Json) -> list[Json]:
            return respond(tuple(map(_generation, instances)))

        def loglikelihood(self, instances: Sequence[Json], **_: Json) -> list[Json]:
            return respond(tuple(map(_likelihood, instances)))

        def loglikelihood_rolling(self, instances: Sequence[Json], **_: Json) -> list[Json]:
            raise UsageError(
                f"--task lm_eval:{instances[0].task_name}: asks for the likelihood of whole texts, which needs "
                "the model's tokenizer; run it by lm-eval itself"
            )

        def apply_chat_template(self, chat: Sequence[Json], add_generation_prompt: bool = True) -> str:
            return orjson.dumps(list(chat)).decode()

    return Handing()


def _generation(instance: Json) -> Request:
    context, given = instance.args
    settings = dict(given)
    settings.pop("do_sample", None)
    until = settings.pop("until", None)
    sent: dict[str, Json] = {
        "max_tokens": settings.pop("max_tokens", None) or settings.pop("max_gen_toks", MAX_GEN_TOKS),
        "temperature": settings.pop("temperature", 0),
        "seed": SEED,
    }
    settings.pop("max_gen_toks", None)
    stops = [until] if isinstance(until, str) else list(until or [])
    if stops:
        sent["stop"] = stops[:4]  # endpoints take four
    return Request(
        "generate_until",
        str(instance.task_name),
        int(instance.doc_id),
        int(instance.idx),
        _prompt(context),
        0,
        sent | settings,
    )


def _prompt(context: str) -> Json:
    """Messages where a chat template made them, else text."""
    if context.startswith('[{"'):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(context)
    return context


def _likelihood(instance: Json) -> Request:
    context, continuation = instance.args
    if not context:
        raise UsageError(
            f"--task lm_eval:{instance.task_name}: asks for the likelihood of a text after nothing, which needs "
            "the model's tokenizer; run it by lm-eval itself"
        )
    settings: dict[str, Json] = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True, "seed": SEED}
    bare = context.rstrip()  # blanks belong to the word after them, as in lm-eval
    return Request(
        "loglikelihood",
        str(instance.task_name),
        int(instance.doc_id),
        int(instance.idx),
        context + continuation,
        len(bare),
        settings,
    )
