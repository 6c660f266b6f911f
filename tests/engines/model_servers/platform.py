"""A real model server as a Pod of the platform: a session, its endpoint, and an evaluation through it."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from tests.engines.model_servers import checks


def on_platform(model: Path, name: str, arguments: Sequence[str], scratch: Path) -> None:
    """Serve a folder by `steelyard serve`, ask the endpoint and evaluate it, and end both."""
    state = scratch / f"state-{name}"
    where = ["--state-dir", str(state)]
    steelyard = [sys.executable, "-m", "steelyard.cli.main"]
    options = [f"--server-arg={argument}" for argument in arguments]
    try:
        status, said = checks.run(
            [*steelyard, "serve", str(model), "--detach", "--name", "tiny", *where, *options]
        )
        assert status == 0, said
        url, token = (re.search(rf"{word}: +(\S+)", said) for word in ("URL", "token"))
        assert url, said
        assert token, said
        ready = re.search(r"ready after (\d+) s", said)
        headers = {"Authorization": f"Bearer {token[1]}"}
        messages = [{"role": "user", "content": "def f(self"}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 8, "stream": True}
        with httpx.stream(
            "POST", f"{url[1]}/chat/completions", json=body, headers=headers, timeout=120
        ) as stream:
            assert stream.status_code == 200, stream.read()
            lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
        assert lines[-1] == "data: [DONE]"
        assert all(json.loads(line[6:])["choices"] is not None for line in lines[:-1])
        _likelihoods_pass(url[1], headers, tokenizes=name == "vllm")
        rows = checks.write_prompts(
            scratch / f"{name}.jsonl", [f"def f{number}(self" for number in range(20)]
        )
        folder = scratch / f"platform-{name}"
        command = [
            *steelyard,
            "eval",
            "run",
            str(rows),
            "--url",
            url[1],
            "--model",
            "tiny",
            "--output",
            str(folder),
        ]
        key = {"OPENAI_API_KEY": token[1]}
        status, said = checks.run([*command, "--max-tokens", "8", "--rubric", "exact-match"], key)
        assert status == 0, said
        assert len(checks.answers(folder)) == 20
        checks.say(f"{name}: a session of the platform, ready after {ready[1] if ready else '?'} s, answers")
    finally:
        checks.run([*steelyard, "down", *where])


def _likelihoods_pass(url: str, headers: Mapping[str, str], *, tokenizes: bool) -> None:
    """Check that what likelihoods need comes through the session's endpoint: log-probabilities and tokens."""
    text = "def f(self, other):"
    body = {"model": "tiny", "prompt": text, "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
    answer = httpx.post(f"{url}/completions", json=body, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text
    logprobs = answer.json()["choices"][0]["logprobs"]
    assert text in "".join(logprobs["tokens"])
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:]), logprobs
    if not tokenizes:
        return
    root = url.removesuffix("/v1")
    answer = httpx.post(
        f"{root}/tokenize", json={"model": "tiny", "prompt": text}, headers=headers, timeout=120
    )
    assert answer.status_code == 200, answer.text
    tokens = answer.json()["tokens"]
    assert len(tokens) == len(logprobs["tokens"]) - 1, "the answer has one token more than the prompt"
