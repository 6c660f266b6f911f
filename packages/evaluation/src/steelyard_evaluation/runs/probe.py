"""A probe of what an endpoint can report about tokens, before the first row is paid for.

Rows that ask for likelihoods need an endpoint that lists the tokens of a prompt. One small request shows whether this
one does; where it does not, the run is refused in one line. `runs.collect` calls `prepare_plan` before the calls begin.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import aiohttp
import orjson

from steelyard_common.bounded_parquet import read_table
from steelyard_common.connections import TrackingConnector
from steelyard_common.errors import UsageError
from steelyard_common.refused_calls import find_reason, is_incurable
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import tokens
from steelyard_evaluation.engine.call import Client
from steelyard_evaluation.engine.completions import CompletionsClient, Tokenizer
from steelyard_evaluation.engine.openai import reader
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.stops import list_stops
from steelyard_evaluation.runs.context import RunContext, RunFailed
from steelyard_evaluation.runs.prompts.render import CONTEXT, GENERATE, KIND, ROLLING
from steelyard_evaluation.runs.resolve import ResolvedRequest

CONTEXT_TEXT, REST_TEXT = "The answer to the first question is", " four"
PATHS = ("../tokenize", "tokenize")
"""Paths at which servers tokenize, relative to a base URL that ends in /v1."""
MAX_LENGTH = 2048
"""Tokens that a model is taken to read at once where neither it nor a setting says; lm-eval's default."""
BUSY = {429, 503}
PAUSE_SECONDS = 1.0


async def prepare_plan(resolved: ResolvedRequest, plan: Plan, context: RunContext) -> Plan:
    """The plan with the client that its rows need. UsageError says what this endpoint cannot be asked."""
    prompt, most = resolved.request.prompt, resolved.request.limits.max_stops
    if prompt.api != "loglikelihood":
        if not list_stops(prompt.sampling) and prompt.settings is None:
            return plan
        # Rows of lm-eval, whose own models cut a prompt that is too long; other prompts are the user's.
        by_lm_eval = prompt.api == "completions" and prompt.settings is not None
        return _with_client(
            plan, await _tokenizer_now(resolved, plan, context) if by_lm_eval else None, context, most
        )
    kinds = _kinds(resolved)
    tokenizer = None
    if kinds.likelihood:
        async with _Endpoint(
            resolved.request.base_urls[0], plan, resolved.request.model, context.stop
        ) as endpoint:
            tokenizer = await endpoint.tokenizer(resolved)
            if not await _check_echo(endpoint, tokenizer, context):
                tokenizer = None
        if kinds.whole and (tokenizer is None or tokenizer.prefix is None):
            raise UsageError(_needs_tokenizer(resolved, tokenizer))
        if tokenizer is None:
            context.listener.warning(
                f"{resolved.request.urls[0]}: has no /tokenize; where the border between question and answer lies "
                "inside a token, the whole token counts, and the report says how many rows that concerns"
            )

    return _with_client(plan, tokenizer, context, most)


def _with_client(plan: Plan, tokenizer: Tokenizer | None, context: RunContext, most: int) -> Plan:
    said: list[str] = []

    def warn() -> None:
        if not said:
            said.append(
                "prompts that are longer than the model's context are cut from the left, as lm-eval does"
            )
            context.listener.warning(said[0])

    def around(at: Callable[[str], Client]) -> Client:
        tokenizing = None if tokenizer is None else at(tokenizer.path)
        return CompletionsClient(at(plan.endpoint), tokenizing, tokenizer, most, warn)

    return replace(plan, around=around)


async def _tokenizer_now(resolved: ResolvedRequest, plan: Plan, context: RunContext) -> Tokenizer | None:
    """Return the endpoint's tokenizer, or None if it is missing or not there yet: it is not waited for."""
    impatient = replace(plan, wait_for_server=0.0)
    try:
        async with _Endpoint(
            resolved.request.base_urls[0], impatient, resolved.request.model, context.stop
        ) as endpoint:
            return await endpoint.tokenizer(resolved)
    except RunFailed:
        return None


@dataclass(frozen=True)
class _Kinds:
    """The kinds of requests among the rows."""

    likelihood: bool
    whole: bool
    """Whole texts, or texts after nothing: every token counts."""


def _kinds(resolved: ResolvedRequest) -> _Kinds:
    table = read_table(resolved.folder.inputs_file, [KIND, CONTEXT])
    asks = {
        (row[KIND], row[CONTEXT] > 0) for row in table.group_by([KIND, CONTEXT]).aggregate([]).to_pylist()
    }
    kinds = {kind for kind, _ in asks} - {GENERATE}
    return _Kinds(
        bool(kinds), ROLLING in kinds or any(not context for kind, context in asks if kind in kinds)
    )


def _needs_tokenizer(resolved: ResolvedRequest, tokenizer: Tokenizer | None) -> str:
    name = resolved.request.source.stem
    if tokenizer is None:
        return (
            f"{name}: needs the likelihood of whole texts; this needs an endpoint with /tokenize; "
            f"{resolved.request.urls[0]} has none. Run it by lm-eval itself, with the model's tokenizer"
        )
    return (
        f"{name}: needs the likelihood of whole texts, and {resolved.request.urls[0]} does not report which token "
        "precedes a text. Name it: --task 'lm_eval:NAME?prefix_token_id=N' (the model's BOS, else its EOS)"
    )


@dataclass
class _Endpoint:
    """The first replica, asked by plain requests."""

    url: str
    plan: Plan
    model: str
    stop: asyncio.Event
    """Set to wait no longer."""
    session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "_Endpoint":
        self.session = aiohttp.ClientSession(
            connector=TrackingConnector(),
            headers=self.plan.headers,
            # A server's first likelihoods were seen to take it more than a minute.
            timeout=aiohttp.ClientTimeout(total=self.plan.client.requestTimeoutSeconds),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.session is not None:
            await self.session.close()

    async def answer(self, path: str, body: JsonValue = None) -> tuple[int, JsonValue]:
        """The status and the JSON of an answer; its text where it is not JSON, such as a page to log in.

        A server that is not there yet, or has no room now, is waited for: it may well have what it cannot report at
        once.
        """
        deadline = asyncio.get_running_loop().time() + self.plan.wait_for_server
        while True:
            late = self.stop.is_set() or asyncio.get_running_loop().time() >= deadline
            try:
                status, answer = await self._answer_now(path, body)
                if status >= 400 and is_incurable(status, said := orjson.dumps(answer)):
                    raise RunFailed(
                        f"{self.url}: status {status}: {find_reason(said)}; nothing was asked, and waiting would "
                        "not help"
                    )
                if status not in BUSY or late:
                    return status, answer
            except aiohttp.ClientConnectorError as error:
                if late:
                    raise RunFailed(f"{self.url}: {error}. Is it up? Nothing was asked") from error
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise RunFailed(
                    f"{self.url}: {str(error) or type(error).__name__}; nothing was asked"
                ) from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def _answer_now(self, path: str, body: JsonValue) -> tuple[int, JsonValue]:
        assert self.session is not None
        url = f"{self.url.rstrip('/')}/{path}"
        method = "GET" if body is None else "POST"
        async with self.session.request(method, url, json=body, allow_redirects=False) as response:
            data = await response.read()
            try:
                return response.status, orjson.loads(data)
            except orjson.JSONDecodeError:
                return response.status, find_reason(data)

    async def tokenizer(self, resolved: ResolvedRequest) -> Tokenizer | None:
        """Return the endpoint's tokenizer; None where it has no `/tokenize`."""
        prompt = resolved.request.prompt
        # vLLM serves /tokenize next to /v1; gateways often forward only what is below it.
        for path in PATHS:
            if not await self.tokens(path, REST_TEXT, special=True):
                continue  # llama.cpp takes another field, and lists no tokens of an empty text
            prefix = prompt.prefix_token_id
            if prefix is None:
                prefix = await self._prefix(path)
            return Tokenizer(path, prefix, prompt.max_length or await self._max_length())
        return None

    async def tokens(self, path: str, text: str, *, special: bool) -> list[int] | None:
        body = {"model": self.model, "prompt": text, "add_special_tokens": special}
        status, answer = await self.answer(path, body)
        # Silence now is no proof that there is no tokenizer: scores with and without one differ.
        if status in BUSY or status >= 500:
            raise RunFailed(
                f"{self.url}: status {status} at /tokenize, so its tokens are not known; nothing was asked"
            )
        ids = answer.get("tokens") if status == 200 and isinstance(answer, dict) else None
        return ids if isinstance(ids, list) and all(isinstance(token, int) for token in ids) else None

    async def _prefix(self, path: str) -> int | None:
        """BOS where the endpoint has one, else EOS where it reports one: as lm-eval chooses."""
        status, info = await self.answer(f"{path}r_info")
        if status == 200 and isinstance(info, dict):
            for name in ("bos_token", "eos_token"):
                token = info.get(name)
                token = token.get("content") if isinstance(token, dict) else token
                if isinstance(token, str) and (ids := await self.tokens(path, token, special=False)):
                    return ids[0]
        # `/tokenizer_info` is off by default in vLLM: what special tokens add before a text shows as well
        # which comes first.
        with_special = await self.tokens(path, REST_TEXT, special=True) or []
        without = await self.tokens(path, REST_TEXT, special=False) or []
        return with_special[0] if with_special[1:] == without and without else None

    async def _max_length(self) -> int:
        status, answer = await self.answer("models")
        models = answer.get("data") if status == 200 and isinstance(answer, dict) else None
        for model in models if isinstance(models, list) else ():
            length = model.get("max_model_len") if isinstance(model, dict) else None
            if isinstance(length, int) and model.get("id") == self.model:
                return length
        return MAX_LENGTH


async def _check_echo(endpoint: _Endpoint, tokenizer: Tokenizer | None, context: RunContext) -> bool:
    """Return whether the tokenizer counts the tokens that the endpoint lists.

    UsageError unless one small request shows that continuations can be found in this endpoint's answers.
    """
    prompt = CONTEXT_TEXT + REST_TEXT
    body = {"model": endpoint.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    status, answer = await endpoint.answer(endpoint.plan.endpoint, {**body, "echo": True, "logprobs": 1})
    if status in {401, 403, 404, 407} or status >= 500 or status in BUSY:
        return True  # the run itself meets this, and has the words and the patience for it
    why = None
    if status != 200:
        why = f"status {status}: {orjson.dumps(answer).decode()[:300]}"
    elif (fault := _fault(prompt, answer)) is not None:
        why = fault
    if why is not None:
        raise UsageError(
            f"{endpoint.url}: cannot be asked for likelihoods: {why}. Nothing was asked but this one request. "
            "vLLM's /v1/completions can; tasks that generate text work with every endpoint"
        )
    # Some servers answer -1 at each place (SGLang), some leave the list out.
    offsets = answer["choices"][0]["logprobs"].get("text_offset")
    if not isinstance(offsets, list) or any(not isinstance(place, int) or place < 0 for place in offsets):
        lacks = "reports no positions of tokens (text_offset is -1 or missing)"
        context.listener.warning(
            f"{endpoint.url}: {lacks}; continuations are found by the texts of the tokens, and a row whose tokens "
            "do not spell its text has no score"
        )
    if tokenizer is None:
        return True
    whole = await endpoint.tokens(tokenizer.path, prompt, special=True) or []
    counted = len(whole) == tokens.prompt_end(answer["choices"][0]["logprobs"]["tokens"], prompt)
    if not counted:
        context.listener.warning(
            f"{endpoint.url}: /tokenize counts other tokens than /completions; it is not used"
        )
    return counted


def _fault(prompt: str, answer: JsonValue) -> str | None:
    """Return why the likelihood of the end of the probe's prompt cannot be read."""
    resolved = {"prompt": prompt, "context": len(CONTEXT_TEXT)}
    reply = {"asked": resolved, "context_tokens": None, "answers": [answer]}
    try:
        (response,) = reader("loglikelihood")(orjson.dumps(reply))
        kept = orjson.loads(response["text"])
        if "fault" in kept:
            return str(kept["fault"])
        tokens.likelihood(kept["logprobs"], kept["tops"])
    except ValueError as error:
        return str(error)
    choice = answer["choices"][0]
    listed, text = choice["logprobs"]["tokens"], choice.get("text") or ""
    # llama-cpp-python pairs each token of a text without BOS with the likelihoods behind it, and lists one too few.
    if tokens.prompt_end(listed, prompt) == len(listed) and text.startswith(prompt) and text != prompt:
        return (
            "the token that it generated is missing from its lists, so the likelihoods of the prompt stand one place "
            "too late (llama.cpp's Python server does so for models without a token for the beginning)"
        )
    return None
