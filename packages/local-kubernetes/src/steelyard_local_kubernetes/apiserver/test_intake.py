"""Answers that are being sent: what one account and all of them may have under way."""

import pytest

from steelyard_local_kubernetes.apiserver.access.users import User, administrator
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.intake import SENT_BYTES, SENT_OF_ONE, Intake

ONE, OTHER, THIRD = (User(name, ()) for name in ("one", "other", "third"))


def test_a_single_answer_may_have_any_size_and_a_second_one_has_to_wait() -> None:
    intake = Intake()
    with intake.sending(ONE, 2 * SENT_OF_ONE):
        with pytest.raises(Refusal) as refused, intake.sending(ONE, 1):
            pass
        assert refused.value.code == 429
        assert str(SENT_OF_ONE) in refused.value.message
    with intake.sending(ONE, SENT_OF_ONE // 2), intake.sending(ONE, SENT_OF_ONE // 2):
        pass


def test_accounts_together_have_a_bound_and_administrators_have_none() -> None:
    intake = Intake()
    with intake.sending(ONE, SENT_OF_ONE), intake.sending(OTHER, SENT_BYTES - SENT_OF_ONE):
        with pytest.raises(Refusal, match=str(SENT_BYTES)), intake.sending(THIRD, 1):
            pass
        with intake.sending(administrator("a"), SENT_BYTES), intake.sending(administrator("a"), SENT_BYTES):
            pass
    with intake.sending(THIRD, SENT_BYTES):
        pass
