"""Hosted models as the arguments of a runner: written, read back, refused by name."""

from decimal import Decimal
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_schema.hosted_model import HostedModel, HostedModelFault, is_hosted, read_hosted_model

IMAGE = {"host": "localhost", "name": "steelyard/runner-hosted", "digest": "sha256:" + "0" * 64}
LEAST = ["--base-url", "https://models.example/v1", "--model", "large"]


def runner(*arguments: str, **fields: Any) -> Json:
    return {
        "kind": "container",
        "image": IMAGE,
        "resources": {},
        "args": [*LEAST, *arguments],
    } | fields


def test_what_is_written_is_read_back() -> None:
    model = HostedModel(
        base_url="https://models.example/v1",
        model="large",
        requests_per_minute=60,
        cost_total=Decimal("0.0000005"),
        input_price=Decimal("0.15"),
        output_price=Decimal(2),
        parameters=("top_a", "guided_json"),
        output_limit="max_completion_tokens",
    )
    assert read_hosted_model(runner() | {"args": model.arguments()}) == model


def test_defaults_are_left_out() -> None:
    model = read_hosted_model(runner())
    assert model.arguments() == LEAST
    assert not model.capped


def test_a_value_may_follow_an_equals_sign() -> None:
    assert read_hosted_model(runner("--tokens-total=500")).tokens_total == 500


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--cost-total", "1"), "args: a cap of cost needs --input-price and --output-price"),
        (("--input-price", "1"), "args: --input-price and --output-price belong together"),
        (("--tokens-total", "0"), "args: --tokens-total: should be greater than or equal to 1, and is '0'"),
        (("--tokens-total", "many"), "args: --tokens-total: .*integer.*'many'"),
        (("--cost-total", "NaN", "--input-price=1", "--output-price=1"), "args: --cost-total: .*finite"),
        (("--cost-total", "-1", "--input-price=1", "--output-price=1"), "args: --cost-total: .*greater"),
        (("--tokens-total",), "args: --tokens-total: its value is missing"),
        (("--tokens-total", "1", "--tokens-total", "2"), "args: --tokens-total: is given twice"),
        (("--api-key", "k"), "args: --api-key: there is no such option; there are --base-url, --model"),
        (("--base-url=https://models.example/v1?key=k",), "args: --base-url: is given twice"),
        (("serve",), "args: serve: there is no such option"),
        (("--currency", "dollars"), "args: --currency: .*pattern"),
    ],
)
def test_a_fault_names_the_option(arguments: tuple[str, ...], fault: str) -> None:
    with pytest.raises(HostedModelFault, match=fault) as error:
        read_hosted_model(runner(*arguments))
    assert error.value.field == "args"


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["sh"]},
        {"env": [{"name": "A", "value": "b"}]},
        {"accelerator": {"kind": "GPU"}},
        {"workingDir": "/"},
        {"nodes": 2},
        {"volumeMounts": [{"kind": "Scratch"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_runner_that_would_start_another_program_is_refused(fields: Json) -> None:
    with pytest.raises(HostedModelFault) as error:
        read_hosted_model(runner(**fields))
    assert error.value.field in fields


def test_only_our_own_image_stands_for_one() -> None:
    assert is_hosted(runner())
    assert not is_hosted(runner(kind="mock"))
    assert not is_hosted(runner(image={**IMAGE, "host": "registry.example"}))
    assert not is_hosted({"kind": "container"})


def test_an_address_holds_no_key() -> None:
    arguments = ["--base-url", "https://models.example/v1?key=k-0123456789", "--model", "m"]
    with pytest.raises(HostedModelFault, match="should have no query and no fragment") as error:
        read_hosted_model(runner() | {"args": arguments})
    assert "k-0123456789" not in str(error.value)
