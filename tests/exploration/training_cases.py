"""The training jobs that are explored; their searches stand in two files, which CI runs side by side."""

from steelyard.operator.training.simulation.job_simulation import make_job
from steelyard.operator.training.simulation.scenario import JobScenario
from tests.exploration.search import Case, Extent

SHORT = Extent(1, 40_000, beyond=200)
LONG = Extent(2, 2_500_000)


def pair() -> JobScenario:
    """A leader and one that works for it, which start again together."""
    return JobScenario(
        make_job(replicas={"Master": 1, "Worker": 1}, restart="ExitCode", policy={"backoffLimit": 1})
    )


def remembering() -> JobScenario:
    """The same, and an operator that knows its own writes before its watches send them."""
    scope, policy = {"steelyard/restart-scope": "Job"}, {"backoffLimit": 2}
    job = make_job(replicas={"Master": 1, "Worker": 1}, annotations=scope, restart="OnFailure", policy=policy)
    return JobScenario(job, remembers=True)


def alone() -> JobScenario:
    """Replicas that the kubelet starts again, each by itself; and an end of all things."""
    policy = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
        "cleanPodPolicy": "Running",
    }
    scope = {"steelyard/restart-scope": "Pod"}
    return JobScenario(make_job(replicas={"Master": 1, "Worker": 1}, annotations=scope, policy=policy))


def suspended() -> JobScenario:
    """Makes a job without a leader that is suspended, as a queue creates it."""
    return JobScenario(
        make_job(replicas={"Worker": 1}, restart="Never", policy={"suspend": True, "cleanPodPolicy": "All"})
    )


STARTED = (
    "operator looks",
    "caches catch up",
    "operator looks",
    "caches catch up",
    "Pod starts",
    "Pod starts",
)
SEEN = ("caches catch up", "operator looks", "caches catch up", "operator looks")
LOST = (
    "caches catch up",
    "operator looks",
    "time passes",
    "operator looks",
    "caches catch up",
    "operator looks",
)
SCALED = ("scaled", *SEEN, "caches catch up", "Pod starts", "scaled", "caches catch up", "operator looks")

AT_WORK = [
    Case("a pair", pair, SHORT, LONG),
    Case("a pair at work", pair, SHORT, LONG, STARTED),
    Case("a pair on a lost node", pair, SHORT, LONG, (*STARTED, "Pod's node is lost", *LOST)),
    Case("replicas for themselves", alone, SHORT, LONG, STARTED),
    Case("a pair whose operator knows its writes", remembering, SHORT, LONG),
    Case("suspended from the start", suspended, SHORT, LONG),
]
CHANGED = [
    Case(
        "a pair that has just failed",
        pair,
        SHORT,
        LONG,
        (*STARTED, "Pod fails, worth a retry", *SEEN),
    ),
    Case("a pair that is suspended", pair, SHORT, LONG, (*STARTED, "suspended", *SEEN)),
    Case("a pair of which more, then less is asked", pair, SHORT, LONG, (*STARTED, *SCALED)),
    Case("a pair after one of its name", pair, SHORT, LONG, (*STARTED, "made again")),
]
