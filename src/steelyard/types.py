"""Types of JSON documents, defined once: every package may import them."""

from typing import Any

Json = dict[str, Any]
"""JSON object with any members: a resource, a document, the body of a request."""

JsonValue = Any
"""JSON value of any type: object, array, string, number, boolean or null."""
