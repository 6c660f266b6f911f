"""Headers of a delivery, with the signature of Standard Webhooks. Pure."""

import base64
import hmac
from collections.abc import Mapping, Sequence

from steelyard.accounts.webhooks.events import CONTENT_TYPE


def headers(event: str, body: bytes, keys: Sequence[bytes], now: float) -> Mapping[str, str]:
    """Return the headers of one attempt, signed with each of the keys: receivers take any that they know."""
    timestamp = str(int(now))
    signed = b".".join((event.encode(), timestamp.encode(), body))
    signatures = " ".join(f"v1,{_base64(hmac.digest(key, signed, 'sha256'))}" for key in keys)
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": "steelyard-webhooks",
        "webhook-id": event,
        "webhook-timestamp": timestamp,
        "webhook-signature": signatures,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
