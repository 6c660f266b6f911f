"""Verifies webhooks as Svix does: `python session_svix.py SECRET`, in an environment of its own.

Standard input is a JSON list of deliveries, each its headers and its body. Prints for each whether it is genuine.
"""

import json
import sys

from svix.webhooks import Webhook, WebhookVerificationError  # type: ignore[import-not-found]


def is_genuine(headers: dict[str, str], body: str) -> bool:
    try:
        Webhook(sys.argv[1]).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


print(json.dumps([is_genuine(headers, body) for headers, body in json.load(sys.stdin)]))
