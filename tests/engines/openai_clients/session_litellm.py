"""Calls of LiteLLM to one server: `python session_litellm.py URL KEY DOOR`, in an environment of its own.

It runs on every version that we name, so that it needs nothing of ours. LiteLLM chooses the class of an error by its
words as well as by its status.
"""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

# Tables of prices and of tokens would come from the web.
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"}

import litellm  # type: ignore[import-not-found]

MESSAGES = [{"role": "user", "content": "How heavy is a steelyard?"}]


class Door:
    """One server, as LiteLLM calls it: `openai/` before a model's name says that its API is OpenAI's."""

    def __init__(self, url: str, key: str) -> None:
        self.options: dict[str, Any] = {"api_base": url, "api_key": key, "max_retries": 0, "timeout": 60}

    def chat(self, model: str = "large", **options: Any) -> Any:
        return litellm.completion(model=f"openai/{model}", messages=MESSAGES, **self.options | options)

    def embed(self, *texts: str) -> list[Any]:
        answer = litellm.embedding(model="openai/large", input=list(texts), **self.options)
        return [row["embedding"] for row in answer.data]


def raised(call: Callable[[], Any]) -> Exception:
    """Return the error that a call raises. LiteLLM's errors have several classes of OpenAI's as their bases."""
    try:
        answer = call()
    except Exception as error:  # noqa: BLE001 - which class it is, the caller checks
        return error
    raise AssertionError(f"no error, but {answer}")


def refused(kind: str, call: Callable[[], Any], status: int) -> None:
    """Check that a call raises the class of this name, for an error with this status."""
    error: Any = raised(call)
    assert type(error) is getattr(litellm, kind), (kind, type(error), error)
    assert error.status_code == status, (status, error)


def answers(door: Door) -> None:
    whole = door.chat(max_tokens=9)
    assert whole.choices[0].message.content
    assert whole.usage.total_tokens > 0
    parts = list(door.chat(max_tokens=9, stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts).strip()
    assert parts[-1].choices[0].finish_reason
    parts = list(door.chat(max_tokens=9, stream=True, stream_options={"include_usage": True}))
    assert any(getattr(part, "usage", None) for part in parts)
    heavy, light = door.embed("heavy", "light")
    assert len(heavy) == len(light) > 0
    assert all(isinstance(number, float) for number in heavy)


def refusals(door: Door, name: str) -> None:
    refused("BadRequestError", lambda: door.chat(n=0), 400)
    if name == "hosted":
        refused("NotFoundError", lambda: door.chat("none"), 404)
    if name == "session":
        refused("AuthenticationError", lambda: door.chat(api_key="sk-wrong"), 401)


def limited(door: Door) -> None:
    """A server with a limit of one call in a minute."""
    door.chat()
    refused("RateLimitError", door.chat, 429)


def broken(door: Door) -> None:
    """A server whose provider breaks off in every stream: the error that the stream ends with is raised."""
    error = raised(lambda: list(door.chat(stream=True)))
    assert "the provider broke off" in str(error), error


def main(url: str, key: str, name: str) -> None:
    litellm.suppress_debug_info = True
    door = Door(url, key)
    match name:
        case "limited":
            limited(door)
        case "broken":
            broken(door)
        case _:
            answers(door)
            refusals(door, name)
    print(f"litellm {version('litellm')}: {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
