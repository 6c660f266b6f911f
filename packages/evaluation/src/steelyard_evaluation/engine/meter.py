"""Counts what calls cost, so that it is known although the process dies: the attempt counts, a caller keeps."""

from typing import Protocol

from steelyard_evaluation.engine.caps import Usage


class Meter(Protocol):
    """Counts the calls of one attempt, and those that earlier attempts left behind."""

    @property
    def before(self) -> Usage:
        """Tokens of earlier attempts, also of answers that were never kept."""

    @property
    def losses(self) -> int:
        """Calls of earlier attempts that were sent and whose answer did not arrive: they are paid all the same."""

    def note_sent(self) -> None:
        """A call is about to be sent."""

    def note_unsent(self) -> None:
        """Take back a call that could not be sent: there was no connection."""

    def note_answered(self, usage: Usage) -> None:
        """Count the tokens of an answered call; a refusal uses none."""

    def note_kept(self) -> None:
        """Count an answer that is its row's: of a row that has several, all but one were paid in vain."""


class NoMeter:
    """Keeps nothing: the durable answers tell the usage."""

    before = Usage()
    losses = 0

    def note_sent(self) -> None:
        return None

    def note_unsent(self) -> None:
        return None

    def note_answered(self, usage: Usage) -> None:
        return None

    def note_kept(self) -> None:
        return None
