"""A deterministic endpoint with a tokenizer of words: the same text always gets the same answer and likelihoods."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any


class Words:
    """Tokens are words with the blanks before them; ids are given as they come."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"<eos>": 0}
        self._lock = threading.Lock()

    def tokens(self, text: str) -> list[str]:
        return re.findall(r"\s*\S+|\s+$", text)

    def encode(self, text: str) -> list[int]:
        with self._lock:
            return [self._ids.setdefault(token, len(self._ids)) for token in self.tokens(text)]

    def decode(self, ids: list[int]) -> str:
        with self._lock:
            names = list(self._ids)
        return "".join(names[each] for each in ids)


def chance(text: str) -> float:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def generated(prompt: str, stop: list[str]) -> str:
    """A sum that is right three times of four, with words around it; it ends where a stop says."""
    numbers = re.findall(r"(\d+) \+ (\d+)", prompt)
    a, b = map(int, numbers[-1]) if numbers else (0, 0)
    luck = chance(prompt)
    said = f" {a + b + (luck > 0.75)}" + (" it is" if luck < 0.3 else "") + "\nQ: and then?"
    ends = [place for each in stop if (place := said.find(each)) >= 0]
    return said[: min(ends)] if ends else said


def answered(body: Json, words: Words) -> Json:
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    texts = [prompt] if isinstance(prompt, str) else prompt
    if texts and isinstance(texts[0], int):
        texts = [texts]
    texts = [text if isinstance(text, str) else words.decode(text) for text in texts]
    choices = []
    for index, text in enumerate(texts):
        if body.get("echo"):
            choices.append(
                {
                    "index": index,
                    "text": text,
                    "logprobs": likelihoods(text, words),
                    "finish_reason": "length",
                }
            )
            continue
        said = generated(text, body.get("stop") or [])
        message = {"role": "assistant", "content": said}
        choices.append({"index": index, "text": said, "message": message, "finish_reason": "stop"})
    return {"choices": choices, "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}


def likelihoods(text: str, words: Words) -> Json:
    """Of every word given all before it, and of one more."""
    tokens = [*words.tokens(text), " end"]
    offsets, logprobs, tops, before = [], [], [], ""
    for number, token in enumerate(tokens):
        offsets.append(len(before))
        value = -0.01 - 5 * chance(before + token)
        better = chance(before) < 0.5
        logprobs.append(None if number == 0 else value)
        tops.append(None if number == 0 else {token: value, **({" better": value + 0.005} if better else {})})
        before += token
    return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}


class Server:
    """The endpoint on a port of loopback; `bodies` is what was asked."""

    def __init__(self) -> None:
        self.bodies: list[Json] = []
        words, bodies = Words(), self.bodies

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_GET(self) -> None:
                self._send({"eos_token": "<eos>", "bos_token": None})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                match self.path:
                    case "/tokenize":
                        self._send({"tokens": words.encode(body["prompt"])})
                    case "/detokenize":
                        self._send({"prompt": words.decode(body["tokens"])})
                    case _:
                        bodies.append(body)
                        self._send(answered(body, words))

            def _send(self, answer: Json) -> None:
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
