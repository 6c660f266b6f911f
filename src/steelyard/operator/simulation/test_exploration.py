"""The exploration itself: what it would find, it finds. What it says of the workflows is in `tests/exploration`."""

import pytest

from steelyard.operator.simulation.exploration import Violation
from steelyard.operator.simulation.merging import MergingCheck
from steelyard.operator.simulation.resources import NAMESPACE, make_model, make_service
from steelyard.operator.simulation.scenarios import InstantScenario, StepScenario
from steelyard.operator.simulation.search import Search
from steelyard.operator.simulation.simulator import Call, Simulator
from steelyard_kube.objects import find_controller
from steelyard_kube.resource import JOBS, PODS
from steelyard_kube.store import make_key


class NeverRight(InstantScenario):
    """A scenario in which no end is right."""

    def end_fault(self, simulator: Simulator) -> str:
        return "not what should be"


def model() -> StepScenario:
    return StepScenario(make_model("model"), "Ready", "FetchFailed")


def test_a_wrong_end_is_found_and_reported_with_the_way_that_leads_to_it() -> None:
    search = Search(NeverRight(make_service("service"), "Ready"), limit=100, floor=1)
    with pytest.raises(Violation, match=r"ends badly: not what should be\noperator looks"):
        search.run()


def test_whatever_happens_to_a_model_at_first() -> None:
    reached = Search(model(), limit=300, floor=1).run()
    assert (reached.states, reached.complete_to) == (300, 0)


def test_all_histories_of_a_world_in_which_nothing_runs_are_seen() -> None:
    reached = Search(InstantScenario(make_service("service"), "Ready"), limit=100, floor=3).run()
    assert reached.complete_to == 3


class Restless(StepScenario):
    """A scenario that goes back and forth without an end."""

    def progress(self, simulator: Simulator) -> bool:
        simulator.store.set_status(JOBS, "model-decoy", NAMESPACE, {"turn": int("odd" in simulator.facts)})
        simulator.facts ^= {"odd"}
        return True


def test_a_run_that_never_ends_is_found_and_reported_with_the_way_that_leads_to_it() -> None:
    search = Search(Restless(make_model("model"), "Ready", "FetchFailed"), limit=1_000, floor=0)
    with pytest.raises(Violation, match=r"never ends\n(operator looks|at the start)[^$]*then: .*progress"):
        search.run()


def test_states_that_are_taken_for_the_same_have_the_same_future() -> None:
    search = MergingCheck(model(), limit=700, floor=1)
    search.run()
    assert search.merged > 50


def test_what_becomes_again_what_it_was_is_not_what_a_cache_has_seen() -> None:
    simulator = model().begin()
    simulator.number_by_content()
    key = make_key(PODS, NAMESPACE, "pod")
    metadata = {"name": "pod", "namespace": NAMESPACE}
    simulator.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {}})
    first = simulator.caches.seen[key] = simulator.store.all_objects[key]
    simulator.store.set_status(PODS, "pod", NAMESPACE, {"phase": "Running"})
    simulator.store.set_status(PODS, "pod", NAMESPACE, {})
    again = simulator.store.all_objects[key]
    assert (again.raw == first.raw, again.version == first.version) == (True, False)


def test_a_suspended_reconciliation_goes_on_where_it_was() -> None:
    simulator = model().begin()
    simulator.restart()
    beginning = simulator.save()
    simulator.step()
    number = simulator.calls.index(Call("create", "Job"))
    whole = simulator.save()

    simulator.load(beginning)
    simulator.pause(number)
    ours = [job["metadata"]["name"] for job in simulator.store.objects(JOBS) if find_controller(job)]
    assert (ours, simulator.paused is None) == ([], False)
    made = simulator.store.version
    simulator.resume()
    assert simulator.paused is None
    assert simulator.save().objects.content == whole.objects.content
    assert simulator.store.version == made + 2, "the Job and the status are written, nothing else"
