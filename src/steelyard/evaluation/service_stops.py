"""Answers by which a service says that it will answer nothing more: its spending has reached a cap, or its provider
refuses it. An evaluation ends there, whatever it does with rows that are refused: all others would be refused, too.
"""

from typing import Any

import orjson

from steelyard.evaluation.call import Failure
from steelyard.evaluation.caps import ReachedCap
from steelyard_schema.hosted_model import STOPPED

STATUSES = frozenset({402, 424})
"""Payment Required, Failed Dependency."""
_MESSAGE_CHARACTERS, _CODE_CHARACTERS = 1000, 63


def stop_in(failure: Failure) -> ReachedCap | None:
    """Return the stop that an answer demands; None for any other refusal."""
    if failure.status not in STATUSES:
        return None
    try:
        content = orjson.loads(failure.body)
    except orjson.JSONDecodeError:
        return None
    error: Any = content.get("error") if isinstance(content, dict) else None
    if not isinstance(error, dict) or error.get("type") != STOPPED:
        return None
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, str) or not code.isalnum() or not isinstance(message, str):
        return None
    return ReachedCap("service", message[:_MESSAGE_CHARACTERS], code[:_CODE_CHARACTERS])
