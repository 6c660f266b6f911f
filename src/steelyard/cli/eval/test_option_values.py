"""Flags as what they mean; each fault names its flag."""

from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.eval import option_values
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.spending.prices import PriceSpec


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h30m", 9000), ("0.5s", 0.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert option_values.seconds("--max-time", text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "-3", "0", "1 h"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="--max-time"):
        option_values.seconds("--max-time", text)


def test_concurrency() -> None:
    assert option_values.concurrency("64") == 64
    assert option_values.concurrency("auto") is None
    for text in ("0", "many", "-1", "1.5"):
        with pytest.raises(UsageError, match=f"--concurrency {text}"):
            option_values.concurrency(text)


def test_urls_lose_their_slash_and_their_doubles() -> None:
    assert option_values.urls(["http://a:8000/v1/", "http://a:8000/v1", "https://b/v1"]) == (
        "http://a:8000/v1",
        "https://b/v1",
    )


@pytest.mark.parametrize(
    "url", ["a:8000", "ftp://a", "http://", "http://a/v1?x=1", "http://a/v1/chat/completions"]
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(UsageError, match="--url"):
        option_values.urls([url])


def test_columns_and_parameters() -> None:
    assert option_values.columns(["prompt=question", "target=a=b"]) == {"prompt": "question", "target": "a=b"}
    assert option_values.parameters(["top_k=40", 'stop=["a"]', "user=me"]) == {
        "top_k": 40,
        "stop": ["a"],
        "user": "me",
    }
    for wrong in ("prompt", "=x", "x="):
        with pytest.raises(UsageError, match="--map"):
            option_values.columns([wrong])
    for wrong in ("top_k", "top_k=" + "[" * 100_000):
        with pytest.raises(UsageError, match="--param"):
            option_values.parameters([wrong])


@pytest.mark.parametrize(
    "content",
    ["m: {prompt: 1, completion: 2}", "prompt: 1\ncompletion: 2", '{"m": {"prompt": 1, "completion": 2}}'],
)
def test_prices_of_a_model(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(content)
    assert option_values.prices(path, "m") == PriceSpec(1, 2)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "n: {prompt: 1, completion: 2}",
        "m: {prompt: x, completion: 2}",
        "m: {prompt: -1, completion: 2}",
        "{",
    ],
)
def test_a_file_without_prices_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match="--prices"):
        option_values.prices(path, "m")


@pytest.mark.parametrize("price", [".nan", ".inf", "-1", "2030-13-01"])
def test_a_price_that_no_cap_could_be_kept_with_is_refused(tmp_path: Path, price: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"m: {{prompt: {price}, completion: 1}}\n")
    with pytest.raises(UsageError, match="--prices"):
        option_values.prices(path, "m")
