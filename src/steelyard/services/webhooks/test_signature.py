"""Signatures as the library of Standard Webhooks verifies them."""

import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from steelyard.accounts.webhooks.registration import format_secret, signing_key
from steelyard.services.webhooks.sender import sign_headers

PEM = b"-----BEGIN PRIVATE KEY-----"
KEY = signing_key(PEM, "h1", 1)


def test_a_receiver_verifies_it() -> None:
    body = b'{"specversion": "1.0"}'
    signed = dict(sign_headers("event", body, [KEY], time.time()))
    Webhook(format_secret(KEY)).verify(body, signed)
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(KEY)).verify(body + b" ", signed)
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(signing_key(PEM, "h2", 1))).verify(body, signed)


def test_each_of_two_secrets_verifies_it() -> None:
    other = signing_key(PEM, "h1", 2)
    signed = dict(sign_headers("event", b"{}", [other, KEY], time.time()))
    for key in (KEY, other):
        Webhook(format_secret(key)).verify(b"{}", signed)


def test_each_webhook_and_generation_has_a_secret_of_its_own() -> None:
    keys = {signing_key(pem, id, number) for pem in (PEM, b"x") for id in ("h1", "h2") for number in (1, 2)}
    assert len(keys) == 8
    assert {len(key) for key in keys} == {32}
