"""The exploration itself: what it would find, it finds. What it says of the workflows is in `tests/exploration`."""

import pytest

from steelyard.kube.resource import JOBS
from steelyard.operator.bench import Bench, Call
from steelyard.operator.doubles import make_model, make_service
from steelyard.operator.exploration import Search, Violation
from steelyard.operator.names import controller_of
from steelyard.operator.worlds import InstantWorld, StepWorld


class NeverRight(InstantWorld):
    """A world in which no end is right."""

    def end_fault(self, bench: Bench) -> str:
        return "not what should be"


def model() -> StepWorld:
    return StepWorld(make_model("model"), "Ready", "FetchFailed")


def test_a_wrong_end_is_found_and_told_with_the_way_that_leads_to_it() -> None:
    search = Search(NeverRight(make_service("service"), "Ready"), limit=100, faults=1)
    with pytest.raises(Violation, match=r"ends badly: not what should be[^$]*then: operator looks"):
        search.run()


def test_whatever_happens_to_a_model_at_first() -> None:
    reached = Search(model(), limit=300, faults=2).run()
    assert (reached.states, reached.complete_to) == (300, 0)


def test_all_histories_of_a_world_in_which_nothing_runs_are_seen() -> None:
    reached = Search(InstantWorld(make_service("service"), "Ready"), limit=100, faults=3).run()
    assert reached.complete_to == 3


def test_a_suspended_reconciliation_goes_on_where_it_was() -> None:
    bench = model().begin()
    bench.restart()
    beginning = bench.save()
    bench.step()
    number = bench.calls.index(Call("create", "Job"))
    whole = bench.save()

    bench.load(beginning)
    bench.pause(number)
    ours = [job["metadata"]["name"] for job in bench.store.objects(JOBS) if controller_of(job)]
    assert (ours, bench.paused is None) == ([], False)
    made = bench.store.version
    bench.resume()
    assert bench.paused is None
    assert bench.save().objects.content == whole.objects.content
    assert bench.store.version == made + 2, "the Job and the status are written, nothing else"
