"""Answers of the mock inference service: deterministic texts, vectors and labels, whole or as a stream.

Pure functions from the body of a call to its answer, in the forms of OpenAI's API, vLLM's and a classifier's.
"""

import base64
import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import TypeAlias

import orjson

from steelyard_common.types import Json, JsonValue

MODEL = "mock"
DIMENSIONS = 64
"""Length of a vector for which a call asks no other."""
WORDS = (
    *("balance", "beam", "counterweight", "fulcrum", "gauge", "lever", "mass", "measure", "notch", "pan"),
    *("pivot", "poise", "scale", "steel", "weigh", "yard"),
)
MOST_WORDS = 15
"""Words of the longest answer to a prompt other than a question."""
_WORD = re.compile(r"\S+")
_PIECE = re.compile(r"\s*\S+|\s+$")
"""A word with the space before it: what one event of a stream holds."""
Call: TypeAlias = Callable[[Json], Json]
AnswerTo: TypeAlias = Callable[[Json, str], str | None]
"""Function from the body of a call and its prompt to the text of an answer; None for the words that any
prompt gets.
"""


class BadCall(ValueError):
    """A call that no such service would accept; the message says why."""


def completion(prompt: str, max_tokens: int) -> str:
    """Words drawn by the digest of the prompt: the same prompt, the same answer."""
    digest = hashlib.sha256(prompt.encode()).digest()
    count = min(max_tokens, 4 + digest[0] % (MOST_WORDS - 3))
    return " ".join(WORDS[digest[k % 32] % len(WORDS)] for k in range(1, count + 1))


def complete(body: Json, answer_to: AnswerTo) -> Json:
    """OpenAI's `/v1/completions`."""
    prompts = body.get("prompt")
    if isinstance(prompts, str):
        prompts = [prompts]
    if not isinstance(prompts, list) or not prompts or not all(isinstance(p, str) for p in prompts):
        raise BadCall("prompt: should be a text or a list of texts")
    answers = [_answer(body, prompt, answer_to) for prompt in prompts for _ in range(_choices(body))]
    choices = [
        {"index": k, "text": text, "logprobs": None, "finish_reason": reason}
        for k, (text, reason) in enumerate(answers)
    ]
    usage = _usage(prompts, [text for text, _ in answers])
    return {**_envelope("cmpl", "text_completion", body), "choices": choices, "usage": usage}


def chat(body: Json, answer_to: AnswerTo) -> Json:
    """OpenAI's `/v1/chat/completions`."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise BadCall("messages: should be a list of {role, content}")
    prompt = "\n".join(f"{m.get('role')}: {_content(m.get('content'))}" for m in messages)
    answers = [_answer(body, prompt, answer_to) for _ in range(_choices(body))]
    choices = [
        {"index": k, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        for k, (text, reason) in enumerate(answers)
    ]
    usage = _usage([prompt], [text for text, _ in answers])
    return {**_envelope("chatcmpl", "chat.completion", body), "choices": choices, "usage": usage}


def _answer(body: Json, prompt: str, answer_to: AnswerTo) -> tuple[str, str]:
    """The text, and the reason why it ends."""
    text = answer_to(body, prompt)
    most = _token_limit(body)
    if text is None:
        text = completion(prompt, MOST_WORDS)
    words = list(_WORD.finditer(text))
    if most is not None and len(words) > most:
        return text[: words[most - 1].end()], "length"
    return text, "stop"


def embed(body: Json) -> Json:
    """OpenAI's `/v1/embeddings`. Texts that share words have vectors that are near each other."""
    texts = _texts(body.get("input"))
    size = body.get("dimensions")
    size = DIMENSIONS if size is None else size
    if not isinstance(size, int) or not 1 <= size <= 4096:
        raise BadCall("dimensions: should be an integer from 1 to 4096")
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise BadCall("encoding_format: should be float or base64")
    vectors = [_vector(text, size) for text in texts]
    data = [
        {"object": "embedding", "index": k, "embedding": _base64(vector) if encoding == "base64" else vector}
        for k, vector in enumerate(vectors)
    ]
    read = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": read, "total_tokens": read}
    return {"object": "list", "data": data, "model": _model(body), "usage": usage}


def _texts(given: JsonValue) -> list[str]:
    """The inputs: a text, several, or tokens in place of a text."""
    if isinstance(given, str) or (isinstance(given, list) and all(isinstance(item, int) for item in given)):
        given = [given]
    texts = [
        " ".join(map(str, text)) if isinstance(text, list) else text
        for text in (given if isinstance(given, list) else [])
    ]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise BadCall("input: should be a text, a list of texts or a list of tokens, none of them empty")
    return texts


def _vector(text: str, size: int) -> tuple[float, ...]:
    """The directions of a text's words, added and brought to length 1, in numbers of 32 bits.

    The first numbers of a longer vector are those of a shorter one, but for the length.
    """
    directions = [
        struct.unpack(f"<{size}h", hashlib.shake_256(word.encode()).digest(2 * size))
        for word in text.lower().split() or [text]
    ]
    added = [sum(column) for column in zip(*directions, strict=True)]
    length = math.hypot(*added) or 1.0
    return struct.unpack(f"<{size}f", struct.pack(f"<{size}f", *(number / length for number in added)))


def _base64(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def wants_stream(body: Json) -> bool:
    """Return whether a call asks for its answer as a stream. Raises BadCall."""
    stream, options = body.get("stream"), body.get("stream_options")
    if not isinstance(stream, bool | None):
        raise BadCall("stream: should be true or false")
    if not isinstance(options, dict | None):
        raise BadCall("stream_options: should be an object")
    return bool(stream)


def chunks(answer: Json, options: Json | None) -> Iterator[Json]:
    """Yield the parts of OpenAI's stream of an answer, a word each; the last one tells the tokens, if asked to."""
    shows_usage = bool((options or {}).get("include_usage"))
    envelope = {name: answer[name] for name in ("id", "object", "created", "model")}
    if envelope["object"] == "chat.completion":
        envelope["object"] = "chat.completion.chunk"
    if shows_usage:
        envelope["usage"] = None
    for choice in answer["choices"]:
        for part, reason in _parts(choice):
            yield {**envelope, "choices": [{"index": choice["index"], **part, "finish_reason": reason}]}
    if shows_usage:
        yield {**envelope, "choices": [], "usage": answer["usage"]}


def _parts(choice: Json) -> Iterator[tuple[Json, str | None]]:
    if "message" in choice:
        yield {"delta": {"role": "assistant", "content": ""}}, None
        for piece in _PIECE.findall(choice["message"]["content"]):
            yield {"delta": {"content": piece}}, None
        yield {"delta": {}}, choice["finish_reason"]
        return
    for piece in _PIECE.findall(choice["text"]):
        yield {"text": piece, "logprobs": None}, None
    yield {"text": "", "logprobs": None}, choice["finish_reason"]


def generate(body: Json) -> Json:
    """vLLM's `/generate`: the prompt comes back before its continuation."""
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadCall("prompt: should be a text")
    if body.get("stream"):
        raise BadCall("stream: not implemented; ask without it")
    most = _token_limit(body) or MOST_WORDS
    return {"text": [f"{prompt} {completion(prompt, most)}" for _ in range(_choices(body))]}


def cut_short(answer: Json) -> Json:
    """Cuts an answer to half its words, with the reason `abort`, as a server does that is being ended."""
    choices = answer.get("choices")
    if choices is None:
        return {**answer, "finish_reason": "abort"}
    return {**answer, "choices": [_half(choice) for choice in choices]}


def _half(choice: Json) -> Json:
    def half(text: str) -> str:
        words = text.split()
        return " ".join(words[: len(words) // 2])

    if "message" in choice:
        message = {**choice["message"], "content": half(choice["message"]["content"])}
        return {**choice, "message": message, "finish_reason": "abort"}
    return {**choice, "text": half(choice["text"]), "finish_reason": "abort"}


def classify(body: Json, labels: tuple[str, ...]) -> Json:
    """The label that the call holds, else one drawn by its digest."""
    if "label" in body:
        return {"label": body["label"]}
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
    return {"label": labels[digest[0] % len(labels)]}


def _envelope(prefix: str, kind: str, body: Json) -> Json:
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return {"id": f"{prefix}-{digest[:24]}", "object": kind, "created": 0, "model": _model(body)}


def _model(body: Json) -> str:
    model = body.get("model")
    model = MODEL if model is None else model
    if not isinstance(model, str):
        raise BadCall("model: should be a text")
    return model


def _usage(prompts: list[str], texts: list[str]) -> Json:
    prompt_words, said = (sum(len(text.split()) for text in group) for group in (prompts, texts))
    return {"prompt_tokens": prompt_words, "completion_tokens": said, "total_tokens": prompt_words + said}


def _token_limit(body: Json) -> int | None:
    """Maximum tokens of an answer. As in OpenAI's API, null stands for a parameter that is not given."""
    for name in ("max_completion_tokens", "max_tokens"):
        if (limit := body.get(name)) is not None:
            if not isinstance(limit, int) or limit < 1:
                raise BadCall(f"{name}: should be a positive integer")
            return limit
    return None


def _choices(body: Json) -> int:
    number = body.get("n")
    number = 1 if number is None else number
    if not isinstance(number, int) or not 1 <= number <= 128:
        raise BadCall("n: should be an integer from 1 to 128")
    return number


def _content(content: object) -> str:
    """The text of a message: given whole, or in parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)
