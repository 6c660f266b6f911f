"""The engine's plan of a run: the same engine as the step's, configured by flags instead of a resource."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from steelyard_common.discovery import UrlDiscovery
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import Caps, Prices, Usage
from steelyard_evaluation.engine.epoch import highest_epoch
from steelyard_evaluation.engine.limit import AUTO, Concurrency
from steelyard_evaluation.engine.openai import OUTPUT_SCHEMA, lacks_text, reader, usage_in
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.runs.prompts.render import requests
from steelyard_evaluation.runs.request import API_KEY_ENV, ENDPOINTS, Limits, RunRequest, identity_digest
from steelyard_evaluation.storage.store import Store
from steelyard_schema.evaluation import EvaluationClientConfiguration
from steelyard_schema.ids import replication_id

FOREVER = 10 * 365 * 24 * 3600
"""Seconds that a run may take: what ends it is a cap, which can be gone on from."""


def make_plan(
    request: RunRequest, identity: Mapping[str, JsonValue], columns: Sequence[str], key: str | None
) -> Plan:
    """UsageError says what in the request cannot work; `key` is sent, and never kept."""
    # The id of an evaluation follows from what is asked: the same request has the same replication ids
    # everywhere.
    evaluation = identity_digest(identity)[:32]
    limits = request.limits
    return Plan(
        evaluation=evaluation,
        replications=tuple(replication_id(evaluation, number) for number in range(request.replications)),
        session=evaluation,
        referenced=False,
        endpoint=ENDPOINTS[request.prompt.api],
        client=EvaluationClientConfiguration(
            badRequestPolicy=request.policy,
            transientErrorRetryLimit=limits.retries,
            requestTimeoutSeconds=max(1, round(limits.timeout)),
            totalTimeoutSeconds=FOREVER,
        ),
        schema=OUTPUT_SCHEMA,
        request=requests(request.prompt, request.model, columns, request.source.location, limits.max_stops),
        read=reader(request.prompt.api),
        identity=identity,
        settings=record_settings(request),
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
        usage=usage,
        wasted=usage_in,
        lacks_text=lacks_text,
        caps=make_caps(limits),
        wait_for_server=limits.wait_for_server,
        concurrency=AUTO if limits.concurrency is None else Concurrency(limits.concurrency, adaptive=True),
    )


def make_caps(limits: Limits) -> Caps:
    """The caps of the whole run; what others have taken from them comes later."""
    if limits.max_cost is not None and limits.prices is None:
        raise UsageError("--max-cost: needs --prices, a file of what a million tokens of the model cost")
    prices = None if limits.prices is None else Prices(limits.prices.prompt, limits.prices.completion)
    return Caps(limits.max_tokens_total, limits.max_cost, prices, limits.max_time)


def usage(responses: Sequence[Mapping[str, JsonValue]]) -> Usage:
    """The tokens of one call, as the service reported them."""
    prompt = sum(response.get("prompt_tokens") or 0 for response in responses)
    return Usage(prompt, sum(response.get("completion_tokens") or 0 for response in responses))


def record_settings(request: RunRequest) -> dict[str, JsonValue]:
    """Return the settings that may change from one attempt to the next, for the record."""
    limits = request.limits
    return {
        "urls": list(request.base_urls),
        "concurrency": limits.concurrency or "auto",
        "timeoutSeconds": limits.timeout,
        "waitForServerSeconds": limits.wait_for_server,
        "retries": limits.retries,
        "badRows": request.policy,
        "maxTokensTotal": limits.max_tokens_total,
        "maxCost": limits.max_cost,
        "maxTimeSeconds": limits.max_time,
        "maxStops": limits.max_stops,
    }


def api_key(request: RunRequest, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key, where there is one; UsageError where a variable was named that is not set."""
    key = environment.get(request.api_key_env, "").strip()
    if not key and request.api_key_env != API_KEY_ENV:
        raise UsageError(f"--api-key-env {request.api_key_env}: is not set")
    if not key:
        return None
    # An HTTP header can hold no such character; the client would fail at every call with words about headers.
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"--api-key-env {request.api_key_env}: holds something that cannot stand in a header"
        )
    return key


def check_urls(request: RunRequest) -> None:
    """UsageError for a URL that cannot be asked. One with a password must never come to `run.yaml`."""
    named = [
        ("--url", request.urls),
        ("--same-model-at", request.same_model_at),
        *((f"judge {judge.name}", judge.urls) for judge in request.judges),
    ]
    for where, urls in named:
        try:
            UrlDiscovery(urls)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from error


async def new_epoch(
    output: Store, now: datetime, random_text: Callable[[], str] = lambda: secrets.token_hex(4)
) -> str:
    """An epoch that outranks all others of `output`, whatever the clocks of their writers said."""
    highest = await highest_epoch(output)
    seconds = int(now.timestamp())
    if highest is not None:
        # Another machine's clock may be ahead: an epoch of our own clock would be fenced off at once.
        seconds = max(seconds, int(highest[:10]) + 1)
    return f"{seconds:010d}-{random_text()}-0001"
