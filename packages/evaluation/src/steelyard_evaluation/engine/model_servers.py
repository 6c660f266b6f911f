"""Doubles of model servers: a deterministic model behind the APIs of vLLM, SGLang, llama.cpp and TGI.

They differ where real ones do: whether a token for the beginning counts, what they call the places of tokens, whether
they list the tokens of a prompt at all, how many stops they take. Tests of runs use them, and the suite that compares
our runs with lm-eval's own.
"""

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from steelyard_common.types import JsonValue

Kind = Literal["vllm", "sglang", "llama.cpp", "tgi"]
Reply = tuple[int, JsonValue]
BOS, EOS = "<s>", "</s>"
PIECE = 4
"""Characters of the longest token."""


def pseudo_random(text: str) -> float:
    """A number from 0 to 1 that always belongs to this text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


class Vocabulary:
    """Tokens are words in pieces of a few characters, a blank before a word with its first; ids as they come."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {EOS: 0, BOS: 1}
        self._texts = [EOS, BOS]
        self._lock = threading.Lock()

    @staticmethod
    def pieces(text: str) -> list[str]:
        parts: list[str] = []
        for part in re.findall(rf"{BOS}|{EOS}|\s?[^\s<]+|\s|<", text):
            parts += [part] if part in (BOS, EOS) else re.findall(rf"(?s).{{1,{PIECE}}}", part)
        return parts

    def encode(self, text: str) -> list[int]:
        with self._lock:
            return [self._id(piece) for piece in self.pieces(text)]

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._texts)
            self._texts.append(piece)
        return self._ids[piece]

    def texts(self, ids: Sequence[int]) -> list[str]:
        return [self._texts[number] for number in ids]


@dataclass
class ModelServer:
    """One server: what it was asked, and its replies."""

    kind: Kind = "vllm"
    bos: bool = False
    """True where the model wants a token for the beginning before every text."""
    most_stops: int | None = None
    max_length: int = 4096
    tokenize: bool = True
    tokenizer_info: bool = False
    busy: int = 0
    """Number of requests that are answered 503 first, as if the server were loading."""
    refuses: str = ""
    """A pattern: prompts with it are refused for good."""
    late: bool = False
    """True where each token of a prompt has the likelihoods of the next place, and the generated one is not listed."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    bodies: list[JsonValue] = field(default_factory=list)
    """Bodies of requests for completions and chat."""

    def reply(self, path: str, body: JsonValue = None) -> Reply:
        """Status and JSON of the answer to a POST, or to a GET without a body."""
        if self.busy:
            self.busy -= 1
            return 503, {"error": {"message": "loading", "code": 503}}
        match path:
            case "/v1/models":
                return 200, {"data": [{"id": "m", "max_model_len": self.max_length}]}
            case "/tokenizer_info" if self.tokenizer_info:
                return 200, {"eos_token": EOS, "bos_token": BOS if self.bos else None}
            case "/tokenize" if self.kind == "llama.cpp" and body is not None:
                return 200, {"tokens": self._encode(body.get("content", ""), special=False)}
            case "/tokenize" if self.tokenize and body is not None:
                ids = self._encode(body["prompt"], special=body.get("add_special_tokens", True))
                return 200, {"tokens": ids, "count": len(ids), "max_model_len": self.max_length}
            case "/detokenize" if self.tokenize and body is not None:
                return 200, {"prompt": "".join(self.vocabulary.texts(body["tokens"]))}
            case "/v1/completions" | "/v1/chat/completions" if body is not None:
                self.bodies.append(body)
                return self._completion(body)
        return 404, {"detail": "Not Found"}

    def _encode(self, text: str, *, special: bool = True) -> list[int]:
        ids = self.vocabulary.encode(text)
        return [*self.vocabulary.encode(BOS), *ids] if special and self.bos else ids

    def _completion(self, body: Mapping[str, JsonValue]) -> Reply:
        stops = body.get("stop") or []
        stops = [stops] if isinstance(stops, str) else stops
        if self.most_stops is not None and len(stops) > self.most_stops:
            message = f"List should have at most {self.most_stops} items after validation, not {len(stops)}"
            return 400, {
                "error": {"message": message, "type": "BadRequestError", "param": "body.stop", "code": 400}
            }
        if "messages" in body:
            return 200, self._answer([self._make_completion(body["messages"][-1]["content"], stops, body)])
        prompts = body["prompt"]
        prompts = (
            [prompts] if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)) else prompts
        )
        choices = []
        for prompt in prompts:
            ids = self._encode(prompt) if isinstance(prompt, str) else list(prompt)
            if self.refuses and re.search(self.refuses, "".join(self.vocabulary.texts(ids))):
                return 400, {"error": {"message": "not this one", "type": "BadRequestError", "code": 400}}
            if len(ids) + 1 > self.max_length:
                message = f"This model's maximum context length is {self.max_length} tokens"
                return 400, {"error": {"message": message, "param": "input_tokens", "code": 400}}
            if body.get("echo") and self.kind != "tgi":
                choices.append(self._echo_prompt(prompt, ids))
            else:
                texts = [text for text in self.vocabulary.texts(ids) if text != BOS]
                choices.append(self._make_completion("".join(texts), stops, body))
        return 200, self._answer(choices)

    def _answer(self, choices: list[dict[str, JsonValue]]) -> JsonValue:
        numbered = [{"index": number, **choice} for number, choice in enumerate(choices)]
        return {"choices": numbered, "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}

    def _make_completion(
        self, prompt: str, stops: Sequence[str], body: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue]:
        text = generate(prompt)
        ends = [place for stop in stops if (place := text.find(stop)) >= 0]
        text = text[: min(ends)] if ends else text
        most = body.get("max_tokens") or 16
        pieces = Vocabulary.pieces(text)
        if len(pieces) > most:
            text, reason = "".join(pieces[:most]), "length"
        else:
            reason = "stop"
        message = {"role": "assistant", "content": text}
        return {"text": text, "message": message, "finish_reason": reason}

    def _echo_prompt(self, prompt: str | list[int], ids: list[int]) -> dict[str, JsonValue]:
        texts = [*self.vocabulary.texts(ids), " end"]
        shown = texts
        if self.kind == "llama.cpp" and self.bos:
            shown = [" ", *texts[1:]]
        logprobs, tops = likelihoods(texts)
        spelled = "".join(shown[:-1]) if isinstance(prompt, list) else prompt
        if self.late:
            shown, logprobs, tops = shown[:-1], [None, *logprobs[2:]], [None, *tops[2:]]
        return {
            "text": spelled + " end",
            "finish_reason": "length",
            "logprobs": {
                "tokens": shown,
                "token_logprobs": logprobs,
                "top_logprobs": tops,
                "text_offset": [-1] * len(shown) if self.kind == "sglang" else _offsets(shown),
            },
        }


def _offsets(texts: Sequence[str]) -> list[int]:
    """The running length of the texts, which counts the token for the beginning: no places in the prompt."""
    places, length = [], 0
    for text in texts:
        places.append(length)
        length += len(text)
    return places


def generate(prompt: str) -> str:
    """A sum that is right three times of four, with words around it, and then the next question of the model's own."""
    numbers = re.findall(r"(\d+) \+ (\d+)", prompt)
    a, b = map(int, numbers[-1]) if numbers else (0, 0)
    luck = pseudo_random(prompt)
    return f" {a + b + (luck > 0.75)}" + (" it is" if luck < 0.3 else "") + "\nQ: and then?"


def likelihoods(texts: Sequence[str]) -> tuple[list[float | None], list[dict[str, float] | None]]:
    """Log-likelihood of each token given all before it, and of the likeliest there; the first token is left out."""
    logprobs: list[float | None] = [None]
    tops: list[dict[str, float] | None] = [None]
    before = texts[0]
    for text in texts[1:]:
        value = -0.01 - 5 * pseudo_random(before + text)
        better = {"better": value + 0.005} if pseudo_random(before) < 0.5 else {}
        logprobs.append(value)
        tops.append({text: value, **better})
        before += text
    return logprobs, tops
