"""Log-likelihoods of the end of a prompt, from what an endpoint answers to `echo` with `logprobs`.

Servers agree on little: some count a token for the beginning of the text, some report no places of tokens. All of them
list the prompt's tokens in order and one generated token last. So the continuation is found from the end, and counts
only where the texts of the tokens spell it. `evaluation.openai` reads answers with this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_common.types import JsonValue

REPLACED = "\ufffd"
"""The character for bytes that cannot be decoded alone."""


class NoLikelihood(ValueError):
    """The answer does not say what the likelihood is; the message says why."""


@dataclass(frozen=True)
class TokenList:
    """The tokens that an endpoint lists: the prompt's, and the generated one behind them."""

    texts: Sequence[str]
    logprobs: Sequence[float | None]
    tops: Sequence[float | None]
    """Log-likelihood of the likeliest token at each place."""


@dataclass(frozen=True)
class Continuation:
    """Begin and end of a continuation's tokens among those listed."""

    start: int
    end: int
    inside: bool = False
    """The border to the context lies inside a token, which counts as one of the continuation."""


def read_token_list(choice: Mapping[str, JsonValue]) -> TokenList:
    """The lists of one choice of a completions answer. NoLikelihood where the endpoint lists no tokens."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping) or not isinstance(logprobs.get("tokens"), list):
        raise NoLikelihood("the endpoint lists no tokens (it does not take echo with logprobs)")
    texts, values = logprobs["tokens"], logprobs.get("token_logprobs")
    tops = logprobs.get("top_logprobs")
    if (
        not isinstance(values, list)
        or not isinstance(tops, list)
        or not len(texts) == len(values) == len(tops)
    ):
        raise NoLikelihood(
            "the endpoint's lists of tokens, likelihoods and likeliest tokens differ in length"
        )
    # The likeliest is found by value: servers list the actual token among the top ones even where it is not.
    best = [max(top.values(), default=None) if isinstance(top, Mapping) else None for top in tops]
    return TokenList([str(text) for text in texts], values, best)


def prompt_end(texts: Sequence[str], prompt: str) -> int:
    """The number of tokens that belong to the prompt, which the endpoint was sent as text.

    One generated token follows them, unless the model ended its answer with it and the endpoint lists no end.
    """
    for end in (len(texts) - 1, len(texts)):
        if end > 0 and _ends_like("".join(texts[:end]), prompt):
            return end
    raise NoLikelihood("the tokens that the endpoint lists do not spell the prompt")


def _ends_like(spelled: str, prompt: str) -> bool:
    """Return whether `spelled` ends with the prompt; blanks at its beginning may be missing, as some tokenizers
    have it.
    """
    bare = prompt.lstrip()
    return spelled.endswith(bare) if bare else spelled.endswith(prompt)


def by_texts(texts: Sequence[str], prompt: str, length: int) -> Continuation:
    """The tokens that spell the last `length` characters of the prompt, found from the end."""
    end = prompt_end(texts, prompt)
    start, spelled = end, 0
    while spelled < length and start > 0:
        start -= 1
        spelled += len(texts[start])
    while start > 0 and texts[start - 1] == "":  # bytes of the character that the next token completes
        start -= 1
    return _check_span(texts, Continuation(start, end, spelled > length), prompt, length)


def by_count(texts: Sequence[str], prompt: str, length: int, context_tokens: int) -> Continuation:
    """The tokens behind the first `context_tokens`, which is how many the context alone has.

    They are what lm-eval takes: where the border lies inside a token, they spell more or less than the continuation.
    """
    end = prompt_end(texts, prompt)
    spelled = sum(len(text) for text in texts[context_tokens:end])
    span = Continuation(min(context_tokens, end), end, spelled != length)
    return _check_span(texts, span, prompt, min(length, spelled))


def _check_span(texts: Sequence[str], span: Continuation, prompt: str, length: int) -> Continuation:
    """NoLikelihood unless these tokens spell at least the last `length` characters of the prompt, and nothing else."""
    spelled = "".join(texts[span.start : span.end])
    if span.start >= span.end:
        raise NoLikelihood("no token of the continuation is left after those of the context")
    if REPLACED in spelled and REPLACED not in prompt:
        raise NoLikelihood("the endpoint lists tokens of the continuation without their texts")
    if len(spelled) < length or not prompt.endswith(spelled):
        raise NoLikelihood("the tokens that the endpoint lists do not spell the continuation")
    return span


def by_ids(texts: Sequence[str], prompt_tokens: int, count: int) -> Continuation:
    """The last `count` tokens of a prompt that was sent as `prompt_tokens` ids."""
    if len(texts) not in (prompt_tokens, prompt_tokens + 1):
        raise NoLikelihood(f"the endpoint lists {len(texts)} tokens of a prompt of {prompt_tokens}")
    return Continuation(prompt_tokens - count, prompt_tokens)


def likelihood(logprobs: Sequence[float | None], tops: Sequence[float | None]) -> tuple[float, bool]:
    """The log-likelihood of a continuation, and whether each of its tokens was the likeliest."""
    if not logprobs or any(value is None for value in logprobs):
        raise NoLikelihood("the endpoint reports no likelihood of a token of the continuation")
    if any(top is None for top in tops):
        raise NoLikelihood("the endpoint does not report the likeliest token at each place")
    values = [value for value in logprobs if value is not None]
    return sum(values), all(value == top for value, top in zip(logprobs, tops, strict=True))
