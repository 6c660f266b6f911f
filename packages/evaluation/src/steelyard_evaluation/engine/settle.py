"""Settlement of calls: each outcome becomes a finished row, another try, a row error, or the end of the
attempt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from steelyard_common.discovery import unpin
from steelyard_evaluation.engine.backlog import Backlog, Try, Work
from steelyard_evaluation.engine.call import KEPT_BODY_BYTES, Failure, Fault, Outcome
from steelyard_evaluation.engine.caps import ReachedCap, Usage
from steelyard_evaluation.engine.endings import unknown_reasons
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.meter import Meter
from steelyard_evaluation.engine.output import Writer
from steelyard_evaluation.engine.parts import RETRIED, FinishedRow, RowError
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.engine.retry import RetryPolicy
from steelyard_evaluation.engine.shape import Malformed
from steelyard_schema.hosted_model import STOPPED

MALFORMED_TRIES = 3
"""Number of times that a row is asked whose answer cannot be read: a service may be confused once."""

NO_TEXT = "the answer has no text, and nothing in its place"

KEPT_TRIES = 10
"""Number of failed tries of a row that are kept."""

_MESSAGE_CHARACTERS = 1000
_TRY_CHARACTERS = 200
STATUSES = frozenset({402, 424})
"""Payment Required, Failed Dependency."""
_REASON_CHARACTERS, _CODE_CHARACTERS = 1000, 63


@dataclass(frozen=True)
class Settler:
    """Settles the rows of one attempt."""

    plan: Plan
    policy: RetryPolicy
    backlog: Backlog
    writer: Writer
    progress: Progress
    jitter: Callable[[], float]
    meter: Meter

    @cached_property
    def capped(self) -> bool:
        """Return whether answers have to be counted against a cap."""
        return self.plan.caps.counted

    @property
    def unmeasured(self) -> bool:
        """Return whether there is a cap, and it is not known yet what a call uses."""
        return self.capped and self.progress.tokens.total == 0

    @cached_property
    def _key(self) -> str:
        return self.plan.headers.get("Authorization", "").rpartition(" ")[2]

    def without_key(self, text: str) -> str:
        """A service may repeat the key that it was asked with; it is written down nowhere."""
        return text.replace(self._key, "[the key]") if self._key else text

    def settle(self, work: Work, address: str, outcome: Outcome) -> None:
        """The call of `work` on the replica at `address` ended with `outcome`."""
        match outcome:
            case bytes():
                self._settle_answer(work, address, outcome)
            case Failure(fault=Fault.REFUSED) if (stop := stop_in(outcome)) is not None:
                self.meter.note_answered(self._count_wasted(outcome.answer))
                self._note(work, address, outcome)
                self.backlog.stop(stop)
            case Failure(fault=Fault.REFUSED):
                # A refusal usually costs nothing; one whose answer was read to its end, such as one too long,
                # may report its tokens.
                self.meter.note_answered(self._count_wasted(outcome.answer))
                self._give_up(work, address, "BadRequest", outcome)
            # About the account or the model, not the row: another replica may answer it, or a later attempt.
            case Failure(fault=Fault.FINAL):
                self.meter.note_answered(self._count_wasted(outcome.answer))
                self._note(work, address, outcome)
                self._again(work, 1)
            # The address belongs to another session's replica now, which was not sent the row.
            case Failure(fault=Fault.FOREIGN):
                self.meter.note_unsent()
                self._note(work, address, outcome)
                self._again(work, 1)  # no fault of the row's
            case Failure(fault=Fault.UNREACHABLE):
                work.attempts -= 1  # nothing was sent
                self.meter.note_unsent()
                self._note(work, address, outcome)
                self._again(work, 1)
            case Failure():
                work.tries += 1
                if outcome.fault is Fault.UNTRUSTED:
                    self.meter.note_unsent()
                elif outcome.status is not None:  # else the connection ended first: perhaps it is paid
                    self.meter.note_answered(self._count_wasted(outcome.answer))
                else:
                    # The server may have read the request and counted its tokens: caps take it as paid.
                    self.progress.lost += 1
                self.progress.refused += outcome.status == 429
                self._note(work, address, outcome)
                if self.policy.exhausted(work.tries):
                    self._give_up(work, address, "RetriesExhausted", outcome)
                else:
                    self._again(work, work.tries, outcome.retry_after)

    def check_caps(self, unsent: int = 0) -> bool:
        """Stop when a cap is reached, unless all is done; return whether it is. `unsent` calls are not sent yet."""
        progress = self.progress
        open_calls = progress.in_flight + progress.lost - unsent
        reached = self.plan.caps.find_reached(progress.tokens, progress.done, open_calls)
        if reached is not None and progress.done < progress.total:
            self.backlog.stop(reached)
        return reached is not None

    def _count_wasted(self, body: bytes) -> Usage:
        """Count the tokens of an answer that cannot be used."""
        if self.plan.wasted is None or not body:
            return Usage()
        usage = self.plan.wasted(body)
        self.progress.tokens += usage
        return usage

    def unsendable(self, work: Work) -> None:
        """The row of `work` cannot be turned into a request."""
        self._give_up(work, None, "BadInput", Failure(Fault.REFUSED, work.unsendable or ""))

    def _settle_answer(self, work: Work, address: str, body: bytes) -> None:
        try:
            responses = self.plan.read(body)
            if self.plan.lacks_text is not None and self.plan.lacks_text(body):
                raise Malformed(NO_TEXT)
        except Malformed as error:
            work.malformed += 1
            if work.malformed == 1:
                self.progress.add_unread(str(error), self._body_text(body))
            self.meter.note_answered(self._count_wasted(body))
            failure = Failure(Fault.REFUSED, str(error), 200, body[:KEPT_BODY_BYTES])
            self._note(work, address, failure)
            if work.malformed >= MALFORMED_TRIES:
                self._give_up(work, address, "MalformedAnswer", failure)
            else:
                self._again(work, work.malformed)
            return
        tokens = None
        if self.plan.usage is not None:
            tokens = self.plan.usage(responses)
            self.progress.tokens += tokens
            if self.capped and not tokens.total:
                message = "the endpoint does not report its tokens (usage), so a cap of tokens or cost cannot be kept"
                raise EvaluationFailed("NoUsage", message, permanent=True)
        self.meter.note_answered(tokens or Usage())
        self.meter.note_kept()
        replication = self.plan.replications[work.replication]
        retried = None
        if work.failed is not None:
            message = f"answered at the attempt {work.attempts}"
            retried = RowError(RETRIED, message, None, None, work.attempts, address, work.failed)
        place, endings = unpin(address)[0], unknown_reasons(body)
        self._finish(
            FinishedRow(work.position, work.index, replication, responses, retried, tokens, place, endings)
        )
        if self.capped:
            self.check_caps()

    def _body_text(self, body: bytes) -> str:
        return self.without_key(body[:KEPT_BODY_BYTES].decode(errors="replace"))

    def _note(self, work: Work, address: str, failure: Failure) -> None:
        """Remember a try that failed: the first ones and the last."""
        message = self.without_key(failure.full_message)[:_TRY_CHARACTERS]
        tried = Try(self.progress.now().isoformat(), address, failure.status, message)
        if work.failed is None:
            work.failed = []
        elif len(work.failed) >= KEPT_TRIES:
            work.failed.pop()
        work.failed.append(tried)

    def _again(self, work: Work, failures: int, retry_after: float = 0.0) -> None:
        self.progress.retries += 1
        self.backlog.put_back(work, self.policy.delay(failures, self.jitter(), retry_after))

    def _give_up(self, work: Work, address: str | None, reason: str, failure: Failure) -> None:
        message = f"{reason}: {failure.message}"[:_MESSAGE_CHARACTERS]
        # The schema's default: a request that one row gets wrong is nearly always wrong in every row.
        if self.plan.client.badRequestPolicy == "Abort":
            body = self.without_key(failure.body.decode(errors="replace"))[:200]
            name = f"index {work.index}, replication {work.replication}"
            raise EvaluationFailed(
                "BadRequest",
                f"{name}: {message}{': ' if body else ''}{body}",
                permanent=True,
                row=str(work.index),
            )
        body_text = self._body_text(failure.body) if failure.body else None
        error = RowError(
            reason, message, failure.status, body_text, work.attempts, address, work.failed or ()
        )
        self.progress.add_error(failure.status, message, body_text)
        replication = self.plan.replications[work.replication]
        place = None if address is None else unpin(address)[0]
        self._finish(FinishedRow(work.position, work.index, replication, None, error, replica=place))

    def _finish(self, row: FinishedRow) -> None:
        # The order matters: the last row to be settled ends the attempt, which then waits for what the writer was
        # given.
        self.writer.add(row)
        self.progress.done += 1
        self.backlog.note_settled()


def stop_in(failure: Failure) -> ReachedCap | None:
    """Return the stop that an answer demands; None for any other refusal.

    The spending of the service has reached a cap, or its provider refuses it: all other rows would be refused, too.
    """
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
    return ReachedCap("service", message[:_REASON_CHARACTERS], code[:_CODE_CHARACTERS])
