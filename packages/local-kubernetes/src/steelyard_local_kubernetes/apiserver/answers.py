"""Answers from outside that a request needs: webhooks are asked between two attempts, never during one.

An attempt at a request runs without an await. Where it lacks an answer it raises `AnswersPending` before it has written
anything; `core.py` fetches the answers, during which other requests go on, and begins again. The last attempt has all
of them, and they are still of the object that it writes: an object that has changed meanwhile has another key.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

ATTEMPTS = 100  # more of them say that the object changes faster than the webhooks answer


@dataclass(frozen=True)
class Question:
    """A call whose answer is known by its key; the call raises nothing."""

    key: str
    ask: Callable[[], Awaitable[Any]]


class AnswersPending(Exception):
    """Questions without whose answers a request cannot go on."""

    def __init__(self, questions: list[Question]) -> None:
        super().__init__("answers are pending")
        self.questions = questions


@dataclass
class Answers:
    """The answers to one request so far, and the values that have to be the same in each attempt at it."""

    known: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def keep(self, name: str, make: Callable[[], str]) -> str:
        """Return a random or passing value that the first attempt makes: webhooks have been shown it."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    async def fetch(self, pending: AnswersPending) -> None:
        """Ask all questions at once."""
        results = await asyncio.gather(*(question.ask() for question in pending.questions))
        for question, result in zip(pending.questions, results, strict=True):
            self.known[question.key] = result


def question_key(*parts: object) -> str:
    """Return the key of a question by all that its answer depends on."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()
