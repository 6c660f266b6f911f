"""Calls of OpenAI's client to one server: `python session_openai.py URL KEY DOOR`, in an environment of its own.

It runs on every version from 1.0 on, so that it needs nothing of ours, and no client that is newer.
"""

import sys
from collections.abc import Callable
from typing import Any

import openai

MESSAGES = [{"role": "user", "content": "How heavy is a steelyard?"}]


def raised(call: Callable[[], Any]) -> openai.APIError | None:
    """Return the error that a call raises."""
    try:
        call()
    except openai.APIError as error:
        return error
    return None


def refused(kind: type[openai.APIStatusError], call: Callable[[], Any], **expected: str | None) -> None:
    """Check that a call raises this class, for an error with these fields."""
    error = raised(call)
    assert isinstance(error, openai.APIStatusError)
    assert type(error) is kind, (kind, error)
    stated = error.response.json()["error"]  # the oldest client reads no field itself
    assert {name: stated[name] for name in expected} == expected, (stated, expected)


def answers(client: openai.OpenAI) -> None:
    create: Callable[..., Any] = client.chat.completions.create
    whole = create(model="large", messages=MESSAGES, max_tokens=9)
    assert whole.choices[0].message.content
    for options in ({}, {"extra_body": {"stream_options": {"include_usage": True}}}):
        parts = list(create(model="large", messages=MESSAGES, max_tokens=9, stream=True, **options))
        texts = [part.choices[0].delta.content or "" for part in parts if part.choices]
        assert len(texts) >= 1
        assert "".join(texts).strip()
        assert bool(parts[-1].choices) is not bool(options)
    vectors: Callable[..., Any] = client.embeddings.create
    [default] = vectors(model="large", input=["heavy"]).data  # as base64, which the client decodes
    [floats] = vectors(model="large", input=["heavy"], encoding_format="float").data
    assert default.embedding == floats.embedding
    models: Any = client.models.list()
    assert client.models.retrieve("large").id == "large" == models.data[0].id


def refusals(client: openai.OpenAI, door: str) -> None:
    create: Callable[..., Any] = client.chat.completions.create
    unknown = {"code": "model_not_found", "param": "model"}
    refused(openai.NotFoundError, lambda: client.models.retrieve("none"), **unknown)
    if door == "hosted":
        refused(openai.NotFoundError, lambda: create(model="none", messages=MESSAGES), **unknown)
    refused(openai.NotFoundError, lambda: client.moderations.create(input="x"), type="invalid_request_error")
    refused(openai.BadRequestError, lambda: create(model="large", messages=MESSAGES, n=0), param="n")
    # The method that the client has for no other path, on one that takes another.
    refused(openai.APIStatusError, lambda: client.models.delete("large"), code="method_not_supported")
    if door == "session":
        stranger = openai.OpenAI(base_url=str(client.base_url), api_key="sk-wrong", max_retries=0)
        refused(openai.AuthenticationError, stranger.models.list, code="invalid_api_key")


def limited(client: openai.OpenAI) -> None:
    """A server with a limit of one call in a minute."""
    create: Callable[..., Any] = client.chat.completions.create
    create(model="large", messages=MESSAGES)
    refused(openai.RateLimitError, lambda: create(model="large", messages=MESSAGES), code="RateLimited")


def broken(client: openai.OpenAI) -> None:
    """A server whose provider breaks off in every stream: the error that the stream ends with is raised."""
    create: Callable[..., Any] = client.chat.completions.create
    error = raised(lambda: list(create(model="large", messages=MESSAGES, stream=True)))
    assert error is not None, "a stream that broke off looked whole"


def main(url: str, key: str, door: str) -> None:
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
    match door:
        case "limited":
            limited(client)
        case "broken":
            broken(client)
        case _:
            answers(client)
            refusals(client, door)
    print(f"openai {openai.__version__}: {door}")


if __name__ == "__main__":
    main(*sys.argv[1:])
