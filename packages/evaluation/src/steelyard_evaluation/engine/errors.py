"""Errors that end an evaluation early. The steps turn these into a termination message and an exit status."""

from steelyard_common.errors import SteelyardError


class EvaluationFailed(SteelyardError):
    """The evaluation cannot go on: `code` becomes the condition's reason, `row` says which row it was.

    `permanent` says that trying again would fail in the same way.
    """

    def __init__(self, code: str, message: str, *, permanent: bool, row: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.permanent = permanent
        self.row = row


class Fenced(EvaluationFailed):
    """A later attempt writes to this output; this one has to end itself."""

    def __init__(self, own: str, other: str) -> None:
        super().__init__(
            "Fenced", f"epoch {other} has taken over this output; epoch {own} ends itself", permanent=False
        )
