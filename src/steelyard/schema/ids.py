"""Identifiers that are computed rather than chosen, as the published schema computes them."""

import uuid

NULL_ID = "0" * 32


def replication_id(evaluation: str, number: int) -> str:
    """The `_replication_` of replication `number` (from 0): uuid5 of the evaluation's id and the number."""
    return uuid.uuid5(uuid.UUID(evaluation), str(number)).hex


def namespaced_id(namespace: str, name: str) -> str:
    """The id of a Score or a Curve: uuid5 of its analysis' id and its name."""
    return uuid.uuid5(uuid.UUID(namespace), name).hex
