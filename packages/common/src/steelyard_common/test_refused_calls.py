"""Tests of what error answers say, and which of them no waiting cures: real ones of many servers."""

import orjson
import pytest

from steelyard_common.refused_calls import find_reason, is_about_row, is_incurable
from steelyard_common.types import JsonValue


def error(message: str, code: str | None = None, kind: str | None = None) -> JsonValue:
    return {"error": {"message": message, "code": code, "type": kind}}


QUOTA = "You exceeded your current quota, please check your plan and billing details."
INCURABLE: dict[str, tuple[int, JsonValue]] = {
    "OpenAI, no credit": (429, error(QUOTA, "insufficient_quota", "insufficient_quota")),
    "OpenAI, by its code alone": (429, error("Sorry.", "insufficient_quota")),
    "OpenAI, by its type alone": (429, error("Sorry.", None, "insufficient_quota")),
    "by words alone": (429, error(QUOTA)),
    "OpenAI, hard limit": (400, error("Billing hard limit has been reached", "billing_hard_limit_reached")),
    "OpenAI, inactive": (429, error("Your account is not active, please check your billing details", "x")),
    "Anthropic": (
        400,
        error("Your credit balance is too low to access the API", None, "invalid_request_error"),
    ),
    "DeepSeek": (402, error("Insufficient Balance", "invalid_request_error")),
    "OpenRouter": (402, {"error": {"code": 402, "message": "Insufficient credits"}}),
    "suspended": (403, {"message": "Your account has been suspended"}),
    "OpenAI, model": (
        404,
        error("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"),
    ),
    "vLLM, model": (404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}),
    "Ollama, model": (404, {"error": 'model "x" not found, try pulling it first'}),
    "a gateway's, model, as a server error": (503, error("No available channel", "model_not_found")),
    "unsupported model, as a server error": (500, {"detail": "Unsupported model: x"}),
    "unknown model, as text": (400, "unknown model 'x'"),
    "model not supported": (400, {"detail": "The model x is not supported"}),
}
CURABLE: dict[str, tuple[int, JsonValue]] = {
    "OpenAI, rate": (
        429,
        error("Rate limit reached for gpt-4 in organization o on tokens per min", "rate_limit_exceeded"),
    ),
    "Gemini, a minute's quota": (
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": QUOTA,
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"retryDelay": "9s"}],
                }
            }
        ],
    ),
    "Anthropic, overloaded": (529, error("Overloaded", None, "overloaded_error")),
    "vLLM, loading": (503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
    "Hugging Face, loading": (503, {"error": "Model x is currently loading", "estimated_time": 20.0}),
    "a proxy": (502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"),
    "nothing": (500, ""),
    "a crash": (500, {"detail": "CUDA error: device-side assert triggered"}),
    "the model is overloaded": (503, error("The model is overloaded. Please try again later.")),
    "a prompt too long for the model": (
        400,
        error("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens"),
    ),
}


def encoded(body: JsonValue) -> bytes:
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


@pytest.mark.parametrize(("status", "body"), INCURABLE.values(), ids=INCURABLE)
def test_what_is_about_the_account_or_the_model_is_not_cured_by_waiting(status: int, body: JsonValue) -> None:
    assert is_incurable(status, encoded(body))


@pytest.mark.parametrize(("status", "body"), CURABLE.values(), ids=CURABLE)
def test_overload_and_crashes_may_be_over_at_the_next_try(status: int, body: JsonValue) -> None:
    assert not is_incurable(status, encoded(body))


def test_a_time_to_wait_outranks_words_and_not_codes() -> None:
    assert not is_incurable(429, encoded(error(QUOTA)), retry_after=True)
    assert is_incurable(429, encoded(error(QUOTA, "insufficient_quota")), retry_after=True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (error("a\n b"), "a b"),
        ({"error": "a"}, "a"),
        ({"message": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ({"detail": [{"loc": ["body", "stop", 0], "msg": "no"}]}, "body.stop.0: no"),
        ({"errors": [{"message": "a"}]}, "a"),
        ([{"error": {"message": "a"}}], "a"),
        ({"error": {"code": 1}}, '{"error":{"code":1}}'),
        ("<html><head><title>t</title></head><h1>502 Bad</h1></html>", "502 Bad"),
        ("a\x1b[31m", "a\ufffd[31m"),
        ("", ""),
        ({}, ""),
        ("null", ""),
        ("[" * 4096, "[" * 300),
    ],
)
def test_the_message_of_an_error_answer_is_one_line(body: JsonValue, reason: str) -> None:
    assert find_reason(encoded(body)) == reason


def test_lengths_and_policies_are_about_a_row() -> None:
    for reason in (
        "maximum context length is 4096 tokens",
        "too long",
        "The response was filtered due to the prompt triggering content management policy",
        "Your input was flagged by moderation",
    ):
        assert is_about_row(reason)
    assert not is_about_row("The model `x` does not exist")
