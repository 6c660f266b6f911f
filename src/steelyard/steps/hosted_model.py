"""`python -m steelyard.steps.hosted_model --config FILE`: the runner of a hosted model.

It asks a provider's endpoint in place of a model of its own, within the limits and caps of the service. The spending
ledger lies in storage, and the provider's key is a secret of the workflow.
"""

import argparse
import secrets
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from aiohttp import web
from pydantic import ValidationError

from steelyard.egress.aiohttp_connector import make_guarded_session
from steelyard.steps.common import StepFailed
from steelyard.steps.secret_files import secret_value
from steelyard.steps.service import add_address, fail, log, serve
from steelyard_evaluation.hosted.account import Account
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.gate import Gate
from steelyard_evaluation.hosted.ledger import Caps
from steelyard_evaluation.hosted.provider import Provider
from steelyard_evaluation.hosted.proxy import Proxy, make_app
from steelyard_evaluation.storage.store import BadLocation, open_store
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.faults import faults_text
from steelyard_schema.hosted_model import SPENDING, HostedModel, HostedModelFault, read_hosted_model
from steelyard_schema.resources import InferenceSessionResourceSpec
from steelyard_schema.steps import StepConfig

NAME = "hosted_model"
IDLE_SECONDS = 4.0
"""Seconds that a connection may wait for its next call: one that the provider has closed would cost a call."""


def read_model(spec: InferenceSessionResourceSpec) -> HostedModel:
    """Return the hosted model of a session. Raises StepFailed."""
    runner = spec.inferenceService.runner
    try:
        return read_hosted_model(runner.dump() if runner else {})
    except HostedModelFault as error:
        raise StepFailed(
            "BadConfiguration", f"spec.inferenceService.runner.{error}", permanent=True
        ) from error


def spending_book(spec: InferenceSessionResourceSpec, model: HostedModel) -> Book:
    """Return the ledger's place in storage. Raises StepFailed for caps without one."""
    place = f"spec.storage.inputs.{SPENDING}"
    url = spec.storage.inputs.get(SPENDING)
    if url is None and model.capped:
        text = f"{place}: is missing, and the spending of this service has a cap"
        raise StepFailed("BadConfiguration", text, permanent=True)
    try:
        return Book(open_store(url or "memory://spending"))
    except BadLocation as error:
        raise StepFailed("BadConfiguration", f"{place}: {error}", permanent=True) from error


def application(config: StepConfig) -> web.Application:
    """Make the server. Raises StepFailed for a configuration that is wrong."""
    try:
        spec = InferenceSessionResourceSpec.model_validate(config.spec)
    except ValidationError as error:
        text = faults_text(error, "spec.", InferenceSessionResourceSpec)
        raise StepFailed("BadConfiguration", text, permanent=True) from error
    model = read_model(spec)
    # Of this process alone: what one that was killed in the same Pod held must not be taken for this one's.
    writer = secrets.token_hex(8)
    account = Account(spending_book(spec, model), Caps(model), writer, lambda: datetime.now(UTC))
    gate = Gate(model.requests_per_minute, model.concurrent_requests, lambda: account.active)
    open_session = partial(
        make_guarded_session,
        config.egress or EgressPolicy(setting="egress.services"),
        limit=0,
        keepalive_timeout=IDLE_SECONDS,
    )
    provider = Provider(model, open_session, secret_value("provider"))
    return make_app(Proxy(model, gate, account, provider, partial(log, "warning", NAME)))


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m steelyard.steps.{NAME}")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the session (JSON)")
    add_address(parser, 8000)
    arguments = parser.parse_args()
    try:
        config = StepConfig.model_validate_json(arguments.config.read_bytes())
        app = application(config)
    except OSError as error:
        fail(NAME, "BadConfiguration", f"--config {arguments.config}: {error}")
    except ValidationError as error:
        text = faults_text(error, model=StepConfig)
        fail(NAME, "BadConfiguration", f"--config {arguments.config}: {text}")
    except StepFailed as error:
        fail(NAME, error.code, error.message)
    serve(NAME, app, arguments.host, arguments.port)


if __name__ == "__main__":
    main()
