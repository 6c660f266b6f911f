"""Requests as the provider gets them, and the most that they may cost."""

from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_evaluation.hosted.calls import Api, BadCall, Call, prepare_call
from steelyard_schema.hosted_model import HostedModel

HELLO = [{"role": "user", "content": "hello"}]


def model(**fields: Any) -> HostedModel:
    given = {"base_url": "https://models.example/v1", "model": "large", "tokens_total": 10**9, **fields}
    return HostedModel(**given)


def made(body: Json, api: Api = "chat", **fields: Any) -> tuple[Json, Call]:
    request = prepare_call(orjson.dumps(body), api, model(**fields))
    return orjson.loads(request.body), request


def test_the_provider_gets_its_models_name_and_a_limit() -> None:
    body, request = made({"messages": HELLO}, max_output_tokens=100)
    assert body == {"messages": HELLO, "model": "large", "max_tokens": 100}
    assert request.most.output == 100
    assert request.most.input >= len(request.body)
    assert request.path == "chat/completions"


@pytest.mark.parametrize("given", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("wanted", ["max_tokens", "max_completion_tokens"])
def test_the_limit_has_the_name_that_the_provider_knows(given: str, wanted: str) -> None:
    body, request = made({"messages": HELLO, given: 7}, output_limit=wanted)
    assert {name: body[name] for name in body if name.startswith("max")} == {wanted: 7}
    assert request.most.output == 7


def test_every_answer_is_counted() -> None:
    assert made({"messages": HELLO, "max_tokens": 7, "n": 3})[1].most.output == 21
    several = {"prompt": ["a", "b"], "max_tokens": 7, "n": 2, "best_of": 5}
    assert made(several, "completions")[1].most.output == 70
    assert made({"prompt": [1, 2, 3], "max_tokens": 7}, "completions")[1].most.output == 7


def test_embeddings_are_read_and_nothing_is_written() -> None:
    asked = {"input": ["ä", "b"], "model": "large", "dimensions": 2}
    body, request = made(asked, "embeddings")
    assert body == {**asked, "model": "large"}
    assert (request.path, request.stream, request.most.output) == ("embeddings", False, 0)
    assert request.most.input >= len(request.body)
    # What a provider's template may add counts for each text.
    assert made({"input": ["x"] * 1000}, "embeddings")[1].most.input > 64 * 1000


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"input": "x", "task": "rank"}, "task: may change what a call costs"),
        ({"input": "x", "stream": True}, "stream: may change"),
        ({"input": {"image": "https://x"}}, "input: only text has a known price"),
        ({"input": ["x", {"image": "https://x"}]}, "input: only text"),
    ],
)
def test_embeddings_of_an_unknown_price_are_refused_under_a_cap(body: Json, fault: str) -> None:
    with pytest.raises(BadCall, match=fault):
        made(body, "embeddings")
    assert made(body, "embeddings", tokens_total=None)[1].path == "embeddings"


def test_a_stream_is_asked_for_its_tokens() -> None:
    body, request = made({"messages": HELLO, "stream": True})
    assert body["stream_options"] == {"include_usage": True}
    assert (request.stream, request.shows_usage) == (True, False)
    shown = {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}}
    assert made(shown)[1].shows_usage


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"messages": HELLO, "max_tokens": 5000}, "max_tokens: 5000 is more than the 4096 tokens"),
        ({"messages": HELLO, "max_tokens": True}, "max_tokens: True should be a whole number"),
        (
            {"messages": HELLO, "max_tokens": 1, "max_completion_tokens": 1},
            "is given together with max_completion_tokens",
        ),
        ({"messages": HELLO, "n": 0}, "n: 0 should be a whole number"),
        ({"messages": HELLO, "service_tier": "priority"}, "service_tier: .*--parameters service_tier"),
        ({"messages": HELLO, "models": ["dearer"]}, "models: may change what a call costs"),
        ({"messages": HELLO, "tools": [{"type": "web_search"}]}, "tools.0: only functions"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content.0: only text",
        ),
        ({"messages": [{"role": "assistant", "audio": {"id": "x"}}]}, "messages.0.audio: its price"),
        ({"messages": ["hello"]}, "messages.0: should be an object"),
        ([], "should be a JSON object"),
    ],
)
def test_a_call_that_may_cost_more_is_refused(body: Any, fault: str) -> None:
    with pytest.raises(BadCall, match=fault):
        made(body)


def test_what_the_service_allows_is_passed_on() -> None:
    body, _ = made({"messages": HELLO, "service_tier": "flex"}, parameters=("service_tier",))
    assert body["service_tier"] == "flex"


def test_without_a_cap_everything_is_passed_on() -> None:
    given = {
        "messages": [{"role": "user", "content": [{"type": "image_url"}]}],
        "plugins": [],
        "max_tokens": 9999,
    }
    body, _ = made(given, tokens_total=None)
    assert body == {**given, "model": "large"}
    assert "max_tokens" not in made({"messages": HELLO}, tokens_total=None)[0]
