"""Error answers of model servers: what they say, and whether the same call may ever succeed.

Servers agree on statuses no more than on wording, so both are read: a provider without credit answers 402, 403 or 429.
Pure; the evaluation engine asks before it tries a call again, and a hosted model before it tells its session so.
"""

import re
from typing import Any

import orjson

_MOST_CHARACTERS = 300

_INCURABLE_CODES = frozenset(
    (
        # the account
        *("insufficient_quota", "insufficient_balance", "insufficient_credits", "insufficient_funds"),
        *("billing_hard_limit_reached", "billing_not_active", "billing_error", "payment_required"),
        *("account_deactivated", "account_suspended", "access_terminated", "out_of_credits"),
        *("invalid_api_key", "organization_deactivated"),
        # the model
        *("model_not_found", "model_not_supported", "unsupported_model", "model_not_available"),
        *("model_deprecated", "deployment_not_found", "deploymentnotfound", "unknown_model"),
    )
)
"""Codes and types of errors that are the same at the next try, and for each row."""

_ACCOUNT = re.compile(
    r"exceeded (your|the) current quota|insufficient[ _](quota|balance|credits?|funds)|credit balance"
    r"|out of credits?|no credits? left|billing (is|was|has|details|hard limit|not)|payment (is )?required"
    r"|account (is |has been |was )?(deactivated|suspended|disabled|blocked|terminated)",
    re.IGNORECASE,
)
_MODEL = re.compile(
    r"(unknown|unsupported|invalid|no such|not a) model\b|\bmodel\b.{0,120}?\b(not found|(does|do) not exist|"
    r"doesn'?t exist|(is|was) (not|un)[ -]?(supported|available|known|loaded|served|valid)|unsupported|unknown|"
    r"(is|was|has been) (deprecated|retired|discontinued)|(not|no) (such|served))"
    r"|\bno (such )?model\b",
    re.IGNORECASE | re.DOTALL,
)
_LENGTH = re.compile(
    r"\b(context|maximum|max\w*|too) (length|long|many|large)|\blength\b|\btokens?\b|\btoo (long|large|many)\b",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"content[ _-]?(filter|policy|management)|safety|moderation|flagged|harmful|inappropriate|\bpolicy\b",
    re.IGNORECASE,
)
_RETRY_HINT = re.compile(rb'"retry_?(delay|after|in)\w*"|retry in \d', re.IGNORECASE)


def find_reason(body: bytes) -> str:
    """Return what an error answer says, in one line: the message of its JSON, or its text; empty without either."""
    text = body.decode(errors="replace")
    try:
        # An endpoint may answer with a nesting that the standard library would end in a RecursionError.
        text = text if orjson.loads(body) else ""
    except orjson.JSONDecodeError:
        bare = r"<(style|script|head)\b.*?</\1>|<[^>]*>"
        text = re.sub(bare, " ", text, flags=re.DOTALL | re.IGNORECASE)
    said = " ".join((find_message(body) or text).split())
    # Printed on a terminal, a control character could hide what follows.
    return "".join(c if c.isprintable() else "\ufffd" for c in said)[:_MOST_CHARACTERS]


def find_message(body: bytes) -> str | None:
    """Return the message in the JSON of an error answer; None if it is not JSON or lacks a message."""
    try:
        return _message(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None


def find_field(body: bytes) -> str | None:
    """Return the field of the request that an error answer in OpenAI's form names; None where it names none."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    match content:
        case {"error": {"param": str(field)}}:
            return field[:_MOST_CHARACTERS]
        case _:
            return None


def is_incurable(status: int, body: bytes, *, retry_after: bool = False) -> bool:
    """Return whether a refusal is about the account or the model, so that no waiting and no other row would help."""
    if status == 402:
        return True
    if _codes(body) & _INCURABLE_CODES:
        return True
    # Words alone are weaker than a code. Where the server names a time to wait (Gemini says "exceeded your current
    # quota" of a limit per minute), it knows better.
    if retry_after or _RETRY_HINT.search(body):
        return False
    reason = find_reason(body)
    return bool(_ACCOUNT.search(reason)) or is_about_model(reason)


def is_about_model(reason: str) -> bool:
    """Return whether a stated reason says that the model is not there."""
    return _MODEL.search(reason) is not None and not is_about_row(reason)


def is_about_row(reason: str) -> bool:
    """Return whether a stated reason is about what one row holds: its length, or a policy about contents."""
    return _LENGTH.search(reason) is not None or is_about_policy(reason)


def is_about_policy(reason: str) -> bool:
    """Return whether a stated reason is about a policy of contents."""
    return _POLICY.search(reason) is not None


def _message(content: Any) -> str | None:
    """The message in the JSON of OpenAI, Anthropic, Google, FastAPI, Ollama, TGI, and similar servers."""
    match content:
        case str():
            return content
        case {"error": error} if error:
            return _message(error)
        case {"message": str(message)} if message:
            return message
        case {"detail": detail} if detail:
            return _message(detail)
        case {"errors": [first, *_]}:
            return _message(first)
        case {"msg": str(message)}:  # pydantic's list of faults
            place = content.get("loc")
            path = ".".join(map(str, place)) if isinstance(place, list) else ""
            return f"{path}: {message}" if path else message
        case [first, *_]:
            return _message(first)
        case _:
            return None


def _codes(body: bytes) -> set[str]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return set()
    if isinstance(content, list) and content:  # Google's
        content = content[0]
    parts = [content, content.get("error")] if isinstance(content, dict) else []
    codes = [
        part.get(name) for part in parts if isinstance(part, dict) for name in ("code", "type", "status")
    ]
    return {code.lower() for code in codes if isinstance(code, str)}
