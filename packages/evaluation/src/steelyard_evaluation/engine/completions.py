"""A client of `/completions` that makes several requests where one row needs them: stops, and likelihoods of texts.

`runs.probe` puts it around an endpoint's plain client. A body that is not one of its own passes through untouched.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from steelyard_common.refused_calls import is_about_row
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import stops
from steelyard_evaluation.engine.call import Client, Failure, Fault, Outcome
from steelyard_evaluation.engine.endings import answer_or_failure

LIKELIHOOD = b'{"likelihood":'
"""First bytes of a body that requests the likelihood of a row."""
KEPT_CONTEXTS = 256
"""Contexts whose tokens are remembered: the choices of a question share theirs."""
SEED = 1234
GENERATED = 256
"""Tokens that an answer may have where a request sets no limit: lm-eval's own number."""


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer of the endpoint, as far as the endpoint describes it."""

    path: str
    """Path of the tokenizing call, relative to the base URL."""
    prefix: int | None
    """The token before a text whose tokens all count."""
    max_length: int
    """Tokens of the longest prompt, the generated token among them."""


def likelihood_body(model: str, prompt: str, context: int, *, rolling: bool = False) -> bytes:
    """The row's request: the likelihood of `prompt` from character `context` on, or of every token (`rolling`)."""
    request = {"likelihood": "rolling" if rolling else "continuation", "model": model, "prompt": prompt}
    return orjson.dumps({**request, "context": context})


def windows(tokens: Sequence[int], prefix: int, longest: int) -> Iterator[tuple[list[int], list[int]]]:
    """Contexts and continuations that count every token once, each of at most `longest` tokens.

    As lm-eval's rolling windows, made disjoint: a later window has one token of context at least.
    """
    first = list(tokens[:longest])
    if first:
        yield [prefix], first
    done = len(first)
    while done < len(tokens):
        end = min(done + longest, len(tokens))
        yield list(tokens[max(0, end - longest - 1) : done]), list(tokens[done:end])
        done = end


@dataclass(eq=False)
class CompletionsClient:
    """The calls of one replica."""

    inner: Client
    tokenizing: Client | None = None
    tokenizer: Tokenizer | None = None
    most_stops: int = stops.MOST_STOPS
    """Number of stop strings that the endpoint accepts; learnt where it refuses more."""
    on_cut: Callable[[], None] = lambda: None
    """Called for each prompt that is cut to the model's context."""
    _contexts: "OrderedDict[str, asyncio.Task[list[int] | Failure]]" = field(default_factory=OrderedDict)

    @property
    def closed(self) -> bool:
        return self.inner.closed

    async def close(self) -> None:
        await self.inner.close()
        if self.tokenizing is not None:
            await self.tokenizing.close()

    async def call(self, body: bytes) -> Outcome:
        if body.startswith(LIKELIHOOD):
            return await self._likelihood(body)
        outcome = await self._generate(body)
        # Tokenized only where it is refused: nearly all prompts fit, and each tokenization is a call.
        if (
            isinstance(outcome, Failure)
            and outcome.status in {400, 413, 422}
            and is_about_row(outcome.full_message)
        ):
            shorter = await self._shorten(body)
            return outcome if shorter is None else await self._generate(shorter)
        return outcome

    async def _shorten(self, body: bytes) -> bytes | None:
        """Return the request with the last tokens of its prompt that the model has room for; None where all fit."""
        enveloped = body.startswith(stops.ENVELOPE)
        wanted, request = stops.open_envelope(body) if enveloped else ([], orjson.loads(body))
        if self.tokenizer is None or not isinstance(request["prompt"], str):
            return None
        tokens = await self._tokens(request["prompt"], special=True)
        room = self.tokenizer.max_length - (request.get("max_tokens") or GENERATED)
        if isinstance(tokens, Failure) or not 0 < room < len(tokens):
            return None
        self.on_cut()
        shorter = orjson.dumps({**request, "prompt": tokens[-room:]})
        return stops.envelope(shorter, wanted) if enveloped else shorter

    async def _generate(self, body: bytes) -> Outcome:
        if body.startswith(stops.ENVELOPE):
            return await self._ask_with_stops(*stops.open_envelope(body))
        outcome = await self.inner.call(body)
        # The limit on stops is documented nowhere, and the refusal names the parameter only: so it is learnt.
        if isinstance(outcome, Failure) and outcome.status == 400 and stops.refuses_stops(outcome.body):
            request = orjson.loads(body)
            self._learn(len(stops.list_stops(request)))
            return await self._ask_with_stops(stops.list_stops(request), request)
        return outcome

    async def _ask_with_stops(self, wanted: list[str], request: Mapping[str, JsonValue]) -> Outcome:
        """Ask with as many stops as the endpoint takes; the answer is returned together with all of them."""
        whole = {**request, "stop": wanted}
        while True:
            # Read again in each turn: calls of other rows may have learnt a lower limit meanwhile.
            most = self.most_stops
            outcome = await self._ask(stops.limit_stops(whole, most))
            if isinstance(outcome, bytes):
                return stops.envelope(outcome, wanted)
            if not most or outcome.status != 400 or not stops.refuses_stops(outcome.body):
                return outcome
            self._learn(min(most, len(wanted)))

    async def _ask(self, body: bytes) -> Outcome:
        """One request's whole answer: one that was cut short can no longer be recognised once it is joined with
        others."""
        outcome = await self.inner.call(body)
        return answer_or_failure(outcome) if isinstance(outcome, bytes) else outcome

    def _learn(self, refused: int) -> None:
        self.most_stops = min(self.most_stops, max(0, refused - 1))

    async def _likelihood(self, body: bytes) -> Outcome:
        request = orjson.loads(body)
        prompt, context = request["prompt"], request["context"]
        if request["likelihood"] == "rolling" or not context:
            return await self._ask_tokens(body, request)
        if self.tokenizer is None:
            return await self._ask_text(body, request, None)
        before = await self._context(prompt[:context])
        whole = await self._tokens(prompt, special=True)
        if isinstance(before, Failure):
            return before
        if isinstance(whole, Failure):
            return whole
        count = len(before)
        # The usual case: the context's tokens are a prefix of the whole's, so one request with text is
        # enough.
        if len(whole) >= self.tokenizer.max_length:
            return await self._cut(body, request, before, whole[count:])
        if whole[:count] == before:
            return await self._ask_text(body, request, count)
        # The border lies inside a token. lm-eval asks for the context's own tokens, then those that the whole has more.
        if len(whole) <= count:
            return (
                b'{"asked":' + body + b',"answers":[],"fault":"no token is left after those of the context"}'
            )
        return await self._ask_ids(body, request, [(before, whole[count:])])

    async def _cut(
        self, body: bytes, request: Mapping[str, JsonValue], before: list[int], counted: list[int]
    ) -> Outcome:
        """A prompt that is longer than the model's context, without its first tokens: as lm-eval asks it."""
        assert self.tokenizer is not None
        most = self.tokenizer.max_length - 1  # one is generated
        # Without a token of context the model would be asked for another text's likelihood.
        room = most - len(counted)
        if not counted or room < 1:
            message = (
                f"the continuation has {len(counted)} tokens; the model takes {most - 1} behind its context"
            )
            return Failure(Fault.REFUSED, message)
        self.on_cut()
        return await self._ask_ids(body, request, [(before[-room:], counted)], cut=len(before) - room)

    async def _ask_text(self, body: bytes, request: Mapping[str, JsonValue], count: int | None) -> Outcome:
        outcome = await self._ask(_echo(request["model"], request["prompt"]))
        if isinstance(outcome, Failure):
            return outcome
        return _join_answers(body, [outcome], b'"context_tokens":' + orjson.dumps(count))

    async def _ask_ids(
        self,
        body: bytes,
        request: Mapping[str, JsonValue],
        pairs: Sequence[tuple[list[int], list[int]]],
        cut: int = 0,
    ) -> Outcome:
        """Contexts and continuations as token ids, a request each."""
        answers = []
        for before, counted in pairs:
            outcome = await self._ask(_echo(request["model"], [*before, *counted]))
            if isinstance(outcome, Failure):
                return outcome
            answers.append(outcome)
        sizes = [[len(before) + len(counted), len(counted)] for before, counted in pairs]
        return _join_answers(body, answers, b'"windows":%b,"cut":%d' % (orjson.dumps(sizes), cut))

    async def _ask_tokens(self, body: bytes, request: Mapping[str, JsonValue]) -> Outcome:
        """A whole text, or one behind nothing: as token ids, in windows that the model takes."""
        tokenizer = self.tokenizer
        if tokenizer is None or tokenizer.prefix is None:  # refused before the run began
            return Failure(Fault.REFUSED, "the endpoint does not report its tokens (/tokenize)")
        rolling = request["likelihood"] == "rolling"
        tokens = await self._tokens(request["prompt"], special=rolling)
        if isinstance(tokens, Failure):
            return tokens
        if not tokens:
            return Failure(Fault.REFUSED, "the text has no tokens")
        # lm-eval would cut such a text from the left and score the rest, which is the likelihood of another
        # text.
        if not rolling and len(tokens) > tokenizer.max_length - 2:
            most = tokenizer.max_length - 2
            return Failure(
                Fault.REFUSED, f"the text has {len(tokens)} tokens; the model takes {most} at once"
            )
        return await self._ask_ids(body, request, _pairs(tokens, tokenizer, rolling=rolling))

    async def _context(self, context: str) -> list[int] | Failure:
        """The tokens of the context alone, with those that the endpoint puts before every text."""
        task = self._contexts.get(context)
        if task is None:
            task = self._contexts[context] = asyncio.ensure_future(self._tokens(context, special=True))
            while len(self._contexts) > KEPT_CONTEXTS:
                self._contexts.popitem(last=False)
        # Rows share the task: the cancellation of one of them must not fail the others.
        tokens = await asyncio.shield(task)
        if isinstance(tokens, Failure):  # another row may have better luck
            self._contexts.pop(context, None)
        return tokens

    async def _tokens(self, text: str, *, special: bool) -> list[int] | Failure:
        assert self.tokenizing is not None
        return await tokenize(self.tokenizing, text, special=special)


async def tokenize(
    client: Client, text: str, *, special: bool, model: str | None = None
) -> list[int] | Failure:
    """The token ids of a text, as `/tokenize` returns them."""
    request = {"prompt": text, "add_special_tokens": special, **({} if model is None else {"model": model})}
    outcome = await client.call(orjson.dumps(request))
    if isinstance(outcome, Failure):
        return outcome
    try:
        tokens: list[int] = orjson.loads(outcome)["tokens"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return Failure(Fault.TRANSIENT, "/tokenize: the answer has no tokens", 200, outcome[:200])
    return tokens


def _pairs(tokens: list[int], tokenizer: Tokenizer, *, rolling: bool) -> list[tuple[list[int], list[int]]]:
    """Return the pairs of context and continuation that lm-eval requests for such a text: windows over all
    tokens, or the tokens behind the prefix.
    """
    assert tokenizer.prefix is not None
    if rolling:  # in each window there is room for one token of context, and for the generated one
        return list(windows(tokens, tokenizer.prefix, tokenizer.max_length - 2))
    # As lm-eval does: a text that begins with the prefix gets no second one, which would change its
    # likelihood.
    if tokens[0] == tokenizer.prefix:
        return [(tokens[:1], tokens[1:])]
    return [([tokenizer.prefix], tokens)]


def _echo(model: str, prompt: str | list[int]) -> bytes:
    """A request for the tokens of the prompt; one is generated behind them."""
    # lm-eval sends the very same: vLLM refuses `max_tokens: 0`, so one token is generated, listed last and
    # left out.
    body = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": SEED, "echo": True}
    return orjson.dumps({"model": model, "prompt": prompt, **body})


def _join_answers(body: bytes, answers: Sequence[bytes], facts: bytes) -> bytes:
    """Return the reader's input: the request, the endpoint's answers as they are, and the counts."""
    return b'{"asked":' + body + b"," + facts + b',"answers":[' + b",".join(answers) + b"]}"
