"""Identifiers: those that are computed, as the published schema computes them, and the source of random ones.

Whatever makes something new takes its source of ids as an argument; `random_id` is the one of processes.
"""

import uuid

NULL_ID = "0" * 32
ID_PATTERN = "^[0-9a-f]{32}$"
UUID4_PATTERN = "^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$"
"""Pattern of ids that the published client makes or accepts in the scope of an analysis."""


def random_id() -> str:
    """Return a version-4 UUID in 32 hexadecimal digits."""
    return uuid.uuid4().hex


def replication_id(evaluation: str, number: int) -> str:
    """Return the `_replication_` of replication `number` (from 0): uuid5 of the evaluation's id and the number.

    Raises ValueError for an id that is not a UUID, such as one that a user wrote into a manifest by hand.
    """
    try:
        namespace = uuid.UUID(evaluation)
    except ValueError as error:
        raise ValueError(f"spec.id: {evaluation!r} should be 32 digits and letters from a to f") from error
    return uuid.uuid5(namespace, str(number)).hex


def id_in_namespace(namespace: str, name: str) -> str:
    """Return the id of a Score or a Curve: uuid5 of its analysis' id and its name."""
    return uuid.uuid5(uuid.UUID(namespace), name).hex
