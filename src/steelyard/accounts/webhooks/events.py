"""Events of webhooks: an entity's end, as a record of the log shows it, as a CloudEvent. Pure.

The form is the JSON event format of CloudEvents 1.0, in structured mode. Its data has what a receiver needs to decide;
the whole entity is read from the API, with a token.
"""

import uuid
from datetime import UTC, datetime, timedelta

import orjson

from steelyard.accounts.webhooks.registration import Event
from steelyard_common.types import Json
from steelyard_schema.entities import PLURALS
from steelyard_schema.webhook import ENDED

CONTENT_TYPE = "application/cloudevents+json"
TYPE_PREFIX = "steelyard."
TRIAL = "steelyard.webhook.test"
REPORTED_FOR = timedelta(days=14)
"""Age from which on an end is not reported any more, so that reported ends need not be remembered for ever."""


def make_event(content: Json, source: str, now: datetime) -> Event | None:
    """Return the event of an entity's state; None where it has not ended, or long ago."""
    kind, status = content["kind"], content["status"]
    if kind not in PLURALS or status not in ENDED:
        return None
    since = content.get("lastTransitionTime") or content["creationTime"]
    time = datetime.fromisoformat(since)
    if now - time > REPORTED_FOR:
        return None
    # The same for every record that shows this end, whichever process reads it: receivers know repeats by it.
    id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"steelyard:{content['id']}:{status}:{since}"))
    names = ("id", "kind", "account", "name", "status", "reason", "message", "creationTime")
    data = {name: content[name] for name in names if content.get(name) is not None}
    body = _cloud_event(
        id,
        source,
        f"{TYPE_PREFIX}{kind.lower()}.{status.lower()}",
        time,
        {**data, "lastTransitionTime": since},
        subject=f"{PLURALS[kind]}/{content['id']}",
    )
    return Event(id, kind, content["account"], content["id"], status, time.timestamp(), body)


def trial_event(id: str, webhook: str, account: str, source: str, now: datetime) -> Event:
    """Return an event with which a receiver can be tried."""
    data = {"webhook": webhook, "account": account}
    body = _cloud_event(id, source, TRIAL, now, data, subject=f"accounts/{account}/webhooks/{webhook}")
    return Event(id, "", account, "", "", now.timestamp(), body)


def find_source(log_id: str, public_url: str) -> str:
    """Return the source of an installation's events: the API's address where it is set, else the log's id."""
    return f"{public_url.rstrip('/')}/v0" if public_url else f"urn:steelyard:{log_id}"


def _cloud_event(id: str, source: str, type: str, time: datetime, data: Json, *, subject: str) -> str:
    event = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": type,
        "subject": subject,
        "time": time.astimezone(UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }
    return orjson.dumps(event).decode()
