"""Svix verifies our webhooks, as the Standard Webhooks say."""

import json

import pytest

from tests.engines.readers.conftest import Delivery, Running, until
from tests.engines.readers.programs import AGES, ask


def changed(delivery: Delivery, *, body: str = "", **headers: str) -> Delivery:
    """Return a delivery that somebody else could have made of a genuine one."""
    before, text = delivery
    lower = {name.lower(): value for name, value in before.items()}
    return {**lower, **{name.replace("_", "-"): value for name, value in headers.items()}}, body or text


def of_type(running: Running, type: str) -> list[Delivery]:
    return [one for one in running.receiver.deliveries if json.loads(one[1])["type"] == type]


@pytest.mark.parametrize("age", AGES)
def test_svix_verifies_what_the_platform_sends_and_nothing_else(running: Running, age: str) -> None:
    until(lambda: of_type(running, "steelyard.report.complete"), "the end of the report")
    deliveries = list(running.receiver.deliveries)
    assert ask("svix", age, running.secret, stdin=json.dumps(deliveries)) == [True] * len(deliveries)
    (delivery,) = of_type(running, "steelyard.report.complete")
    forged = [
        changed(delivery, body=delivery[1].replace("report", "audits")),
        changed(delivery, webhook_id="another"),
        changed(delivery, webhook_timestamp="1700000000"),
        changed(delivery, webhook_signature="v1,c2lnbmF0dXJl"),
    ]
    assert ask("svix", age, running.secret, stdin=json.dumps(forged)) == [False] * len(forged)


@pytest.mark.parametrize("age", AGES)
def test_both_secrets_verify_after_a_new_one_was_begun(running: Running, age: str) -> None:
    made = running.client.webhooks.create(running.owner, running.receiver.url, statuses=["Terminated"])
    id = made.webhook.id or ""
    secrets = (made.secret, running.client.webhooks.rotate_secret(running.owner, id).secret)
    subject = f"accounts/{running.owner}/webhooks/{id}"
    running.client.webhooks.test(running.owner, id)

    def sent() -> list[Delivery]:
        return [one for one in running.receiver.deliveries if json.loads(one[1])["subject"] == subject]

    until(sent, "the event of a test")
    for secret in secrets:
        assert ask("svix", age, secret, stdin=json.dumps(sent())) == [True] * len(sent())
    running.client.webhooks.delete(running.owner, id)
