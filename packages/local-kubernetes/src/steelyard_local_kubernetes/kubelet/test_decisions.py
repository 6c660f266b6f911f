"""Tests of decisions about a Pod and of its status: tables over the pure parts."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet.node import find_lack, no_room_beside_others
from steelyard_local_kubernetes.kubelet.plan import back_off, deadline, decide, next_to_end
from steelyard_local_kubernetes.kubelet.records import LOST, Failure, Run
from steelyard_local_kubernetes.kubelet.status import ObservedPod, pod_status, with_times
from steelyard_local_kubernetes.kubelet.testing import condition, make_container, make_pod
from steelyard_local_kubernetes.quantity import memory_limit, number, pod_requests

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = Run(0, "running", "2026-01-01T11:59:00.000000000Z", pid=7, shim=6, shim_start=5)
FAILED = Failure("BoundToAllAddresses", "it listens everywhere")


def ended(code: int, attempt: int = 0, seconds_ago: float = 0, reason: str = "", lasted: float = 1) -> Run:
    finish = NOW - timedelta(seconds=seconds_ago)
    begin = finish - timedelta(seconds=lasted)
    begun, done = (f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z" for moment in (begin, finish))
    words = reason or ("Error" if code else "Completed")
    return Run(attempt, "exited", begun, done, exit_code=code, reason=words)


def deleting(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T12:00:30Z"}}


TWO = make_pod(initContainers=[make_container("", "first")])
ALWAYS = make_pod(restartPolicy="Always")
ON_FAILURE = make_pod(restartPolicy="OnFailure")


@pytest.mark.parametrize(
    ("pod", "runs", "failure", "start", "stop", "over"),
    [
        pytest.param(make_pod(), {}, None, [("main", 0)], False, False, id="a new Pod starts"),
        pytest.param(TWO, {}, None, [("first", 0)], False, False, id="init containers come first"),
        pytest.param(TWO, {"first": RUNNING}, None, [], False, False, id="one init container at a time"),
        pytest.param(TWO, {"first": ended(0)}, None, [("main", 0)], False, False, id="then the rest"),
        pytest.param(
            TWO, {"first": ended(1)}, None, [], False, True, id="a failed init container ends the Pod"
        ),
        pytest.param(
            make_pod(), {"main": Run(0, "intended")}, None, [], False, False, id="never the same run twice"
        ),
        pytest.param(make_pod(), {"main": RUNNING}, None, [], False, False, id="what runs runs on"),
        pytest.param(make_pod(), {"main": ended(0)}, None, [], False, True, id="once is enough"),
        pytest.param(make_pod(), {"main": ended(1)}, None, [], False, True, id="Never means never"),
        pytest.param(ON_FAILURE, {"main": ended(0)}, None, [], False, True, id="OnFailure leaves successes"),
        pytest.param(
            ON_FAILURE, {"main": ended(1)}, None, [("main", 1)], False, False, id="OnFailure repeats"
        ),
        pytest.param(ALWAYS, {"main": ended(0)}, None, [("main", 1)], False, False, id="Always repeats"),
        pytest.param(
            ALWAYS, {"main": ended(1, 1, 9)}, None, [], False, False, id="the second restart waits 10 s"
        ),
        pytest.param(
            ALWAYS, {"main": ended(1, 1, 10)}, None, [("main", 2)], False, False, id="and then comes"
        ),
        pytest.param(
            ALWAYS,
            {"main": ended(1, 9, 1, lasted=700)},
            None,
            [("main", 10)],
            False,
            False,
            id="health forgives",
        ),
        pytest.param(make_pod(), {"main": RUNNING}, FAILED, [], True, False, id="a failed Pod stops"),
        pytest.param(make_pod(), {"main": ended(137)}, FAILED, [], False, True, id="and is over"),
        pytest.param(ALWAYS, {"main": ended(137)}, FAILED, [], False, True, id="whatever its policy"),
        pytest.param(deleting(ALWAYS), {"main": RUNNING}, None, [], True, False, id="a deleted Pod stops"),
        pytest.param(
            deleting(ALWAYS), {"main": ended(0)}, None, [], False, True, id="and does not start again"
        ),
        pytest.param(deleting(make_pod()), {}, None, [], False, True, id="nor for the first time"),
    ],
)
def test_what_to_do(
    pod: Json,
    runs: dict[str, Run],
    failure: Failure | None,
    start: list[tuple[str, int]],
    stop: bool,
    over: bool,
) -> None:
    plan = decide(pod, runs, failure, now=NOW, crash_backoff=10)
    assert (list(plan.start), plan.stop, plan.ended) == (start, stop, over)


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    assert [back_off(attempt, 10) for attempt in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_back_off_says_when_to_reconcile_again() -> None:
    plan = decide(ALWAYS, {"main": ended(1, 1, 4)}, None, now=NOW, crash_backoff=10)
    assert plan.requeue_at == NOW + timedelta(seconds=6)
    assert plan.back_off == ("main",)


def test_a_clock_that_was_set_back_keeps_no_container_waiting() -> None:
    plan = decide(ALWAYS, {"main": ended(1, 1, -3600)}, None, now=NOW, crash_backoff=10)
    assert (plan.start, plan.back_off) == ((("main", 2),), ())


def status(pod: Json, runs: dict[str, Run], *, over: bool = False, failure: Failure | None = None) -> Json:
    observed = ObservedPod(runs, ready={"main": True}, started={"main": True}, failure=failure, ended=over)
    pod["metadata"]["uid"] = "u"
    return pod_status(pod, observed, host_ip="127.0.0.1", now=NOW)


@pytest.mark.parametrize(
    ("runs", "over", "failure", "phase"),
    [
        pytest.param({}, False, None, "Pending", id="nothing has started"),
        pytest.param({"main": RUNNING}, False, None, "Running", id="it runs"),
        pytest.param({"main": ended(1)}, False, None, "Running", id="it will start again"),
        pytest.param({"main": ended(0)}, True, None, "Succeeded", id="it has succeeded"),
        pytest.param({"main": ended(2)}, True, None, "Failed", id="it has failed"),
        pytest.param({"main": ended(0)}, True, FAILED, "Failed", id="it has failed as a whole"),
        pytest.param({"main": RUNNING}, False, FAILED, "Running", id="it is being stopped"),
        pytest.param({}, True, FAILED, "Failed", id="it has failed before it began"),
    ],
)
def test_the_phase(runs: dict[str, Run], over: bool, failure: Failure | None, phase: str) -> None:
    assert status(make_pod(), runs, over=over, failure=failure)["phase"] == phase


def test_a_lost_container_is_a_disruption() -> None:
    pod = {"status": status(make_pod(), {"main": ended(137, reason=LOST)}, over=True)}
    assert condition(pod, "DisruptionTarget")["reason"] == "TerminationByKubelet"
    assert condition({"status": status(make_pod(), {"main": ended(1)}, over=True)}, "DisruptionTarget") == {}


@pytest.mark.parametrize(
    ("runs", "over", "waiting", "holds"),
    [
        pytest.param({}, False, {}, False, id="its volumes are made"),
        pytest.param({}, False, {"main": ("ContainerCreating", "")}, False, id="a volume is missing"),
        pytest.param({}, False, {"main": ("ErrImageNeverPull", "")}, True, id="its image is missing"),
        pytest.param({"main": Run(0, "intended")}, False, {}, False, id="it starts"),
        pytest.param({"main": RUNNING}, False, {}, True, id="it runs"),
        pytest.param({"main": ended(1)}, False, {}, True, id="it will start again"),
        pytest.param({"main": Run(1, "intended")}, False, {}, True, id="it starts again"),
        pytest.param({"main": ended(0)}, True, {}, False, id="it has ended"),
    ],
)
def test_when_a_pod_is_ready_to_start_containers(
    runs: dict[str, Run], over: bool, waiting: dict[str, tuple[str, str]], holds: bool
) -> None:
    observed = ObservedPod(runs=runs, waiting=waiting, ended=over)
    pod = make_pod()
    pod["metadata"]["uid"] = "u"
    shown = {"status": pod_status(pod, observed, host_ip="127.0.0.1", now=NOW)}
    assert condition(shown, "PodReadyToStartContainers")["status"] == str(holds)


def test_times_change_with_the_status_only_and_foreign_conditions_stay() -> None:
    known = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "then"},
        {"type": "Initialized", "status": "False", "lastTransitionTime": "then"},
        {"type": "Other", "status": "True"},
    ]
    wanted = [{"type": kind, "status": "True"} for kind in ("Ready", "Initialized")]
    timed = with_times(wanted, known, "now")
    assert [(condition["type"], condition.get("lastTransitionTime")) for condition in timed] == [
        ("Ready", "then"),
        ("Initialized", "now"),
        ("Other", None),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", 0.1),
        ("2", 2),
        ("1e3", 1e3),
        (3, 3),
        ("256Mi", 256 * 2**20),
        ("1G", 1e9),
        ("2Ei", 2 * 2**60),
        ("5E", 5e18),
    ],
)
def test_quantities(text: str | int, value: float) -> None:
    assert number(text) == pytest.approx(value)


def test_what_is_no_quantity_is_refused() -> None:
    for wrong in ("", "Mi", "1x", "1 Gi"):
        with pytest.raises(ValueError, match="not a quantity"):
            number(wrong)


def test_init_containers_ask_one_by_one_the_others_together() -> None:
    def asks(cpu: str) -> Json:
        return {"resources": {"requests": {"cpu": cpu}}}

    pod = make_pod(
        make_container(**asks("100m")),
        make_container(name="b", **asks("300m")),
        initContainers=[make_container(name="i", **asks("350m")), make_container(name="j", **asks("2"))],
    )
    assert pod_requests(pod)["cpu"] == 2
    assert pod_requests(pod)["pods"] == 1
    crowded = make_pod(*(make_container(f"c{n}") for n in range(100)))
    assert pod_requests(crowded)["pods"] == 25
    assert pod_requests(make_pod(make_container(resources={"limits": {"cpu": "1"}})))["cpu"] == 1


def sidecar(name: str = "proxy", **fields: object) -> Json:
    return {**make_container("", name, **fields), "restartPolicy": "Always"}


MESH = make_pod(initContainers=[sidecar(), make_container("", "first"), sidecar("logs")])
DONE = ended(0)


@pytest.mark.parametrize(
    ("pod", "runs", "started", "start", "retire", "over"),
    [
        pytest.param(MESH, {}, [], ["proxy"], [], False, id="a sidecar starts first"),
        pytest.param(MESH, {"proxy": RUNNING}, [], [], [], False, id="others wait until it has started"),
        pytest.param(MESH, {"proxy": RUNNING}, ["proxy"], ["first"], [], False, id="then they begin"),
        pytest.param(
            MESH, {"proxy": DONE, "first": RUNNING}, [], ["proxy"], [], False, id="it starts again after a success"
        ),
        pytest.param(
            MESH, {"proxy": RUNNING, "first": DONE, "logs": RUNNING}, ["proxy", "logs"], ["main"], [], False,
            id="containers come after all of them",
        ),
        pytest.param(
            MESH, {"proxy": RUNNING, "first": DONE, "logs": DONE, "main": RUNNING}, ["proxy"], ["logs"], [], False,
            id="one starts again beside containers",
        ),
        pytest.param(
            MESH, {"proxy": RUNNING, "first": DONE, "logs": RUNNING, "main": DONE}, ["proxy", "logs"], [], ["logs"],
            False, id="the last one ends first, when the containers have",
        ),
        pytest.param(
            MESH, {"proxy": RUNNING, "first": DONE, "logs": ended(143), "main": DONE}, ["proxy"], [], ["proxy"], False,
            id="then the one before it, and none starts again",
        ),
        pytest.param(
            MESH, {"proxy": ended(143), "first": DONE, "logs": ended(143), "main": DONE}, [], [], [], True,
            id="then the Pod is over",
        ),
        pytest.param(
            MESH, {"proxy": RUNNING, "first": ended(1)}, ["proxy"], [], ["proxy"], False,
            id="a failed init container ends them too",
        ),
    ],
)  # fmt: skip
def test_sidecars(
    pod: Json,
    runs: dict[str, Run | None],
    started: list[str],
    start: list[str],
    retire: list[str],
    over: bool,
) -> None:
    todo = decide(pod, runs, None, now=NOW, crash_backoff=10, started=dict.fromkeys(started, True))
    assert ([name for name, _ in todo.start], list(todo.retire), todo.ended) == (start, retire, over)


def test_sidecars_end_after_the_containers_when_the_pod_is_deleted() -> None:
    runs: dict[str, Run | None] = {"proxy": RUNNING, "first": DONE, "logs": RUNNING, "main": RUNNING}
    assert next_to_end(MESH, runs) == ["main"]
    assert next_to_end(MESH, {**runs, "main": ended(143)}) == ["logs"]
    assert next_to_end(MESH, {**runs, "main": ended(143), "logs": ended(143)}) == ["proxy"]


def test_a_sidecar_counts_for_readiness_and_not_for_the_end() -> None:
    pod = make_pod(initContainers=[sidecar()])
    pod["metadata"]["uid"] = "u"
    runs: dict[str, Run | None] = {"proxy": RUNNING, "main": RUNNING}
    status = pod_status(
        pod, ObservedPod(runs, ready={"main": True}, started={"proxy": True}), host_ip="", now=NOW
    )
    assert condition({"status": status}, "Ready")["status"] == "False"
    assert condition({"status": status}, "Initialized")["status"] == "True"
    ready = {"main": True, "proxy": True}
    status = pod_status(pod, ObservedPod(runs, ready=ready, started=ready), host_ip="", now=NOW)
    assert condition({"status": status}, "Ready")["status"] == "True"
    last: dict[str, Run | None] = {"proxy": ended(143), "main": DONE}
    status = pod_status(pod, ObservedPod(last, ended=True), host_ip="", now=NOW)
    assert status["phase"] == "Succeeded"
    assert condition({"status": status}, "Initialized")["reason"] == "PodCompleted"


def test_requests_of_sidecars_are_added() -> None:
    pod = make_pod(
        make_container(resources={"requests": {"cpu": "1"}}),
        initContainers=[
            sidecar(resources={"requests": {"cpu": "500m"}}),
            make_container("", "first", resources={"requests": {"cpu": "2"}}),
        ],
    )
    assert pod_requests(pod)["cpu"] == 2.5


def test_why_a_pod_does_not_fit() -> None:
    room = {"cpu": 2.0, "memory": 2.0**30, "pods": 10.0}
    pod = make_pod(make_container(resources={"requests": {"memory": "2Gi", "nvidia.com/gpu": "1"}}))
    message = find_lack({"memory": 2.0**29}, room, pod_requests(pod)).text
    assert "Insufficient memory (the Pod asks for 2048Mi, 512Mi of 1024Mi is free)" in message
    assert (
        "Insufficient nvidia.com/gpu (the Pod asks for 1: this machine offers no nvidia.com/gpu)" in message
    )
    assert not find_lack({"pods": 9.0}, room, {"pods": 1.0})


def test_why_a_pod_has_no_gpu() -> None:
    """The kind of a lack changes with its cause, not with who has the GPU just now."""
    pod = make_pod(make_container(resources={"limits": {"nvidia.com/gpu": "1"}}))
    none = find_lack({}, {"pods": 1.0}, pod_requests(pod), lambda resource: "there is no driver")
    assert "(the Pod asks for 1: there is no driver)" in none.text
    room = {"pods": 1.0, "nvidia.com/gpu": 1.0}
    held = [
        find_lack({"nvidia.com/gpu": 1.0}, room, pod_requests(pod), why)
        for why in ("held by a of {}".format, "held by b of {}".format)
    ]
    assert "(the Pod asks for 1, 0 of 1 is free: held by a of nvidia.com/gpu)" in held[0].text
    assert held[0].kind == held[1].kind != none.kind
    assert not find_lack({}, room, pod_requests(pod))


def test_no_part_of_a_whole_gpu_is_kept_for_others() -> None:
    room, wanted = {"cpu": 4.0, "nvidia.com/gpu": 1.0}, {"cpu": 1.0, "nvidia.com/gpu": 1.0}
    assert not no_room_beside_others({"cpu": 2.0}, room, wanted)
    assert no_room_beside_others({"cpu": 2.5}, room, wanted)


@pytest.mark.parametrize("amount", ["1e999", "9e99", "1e-999", "0", 1.5, "9223372036854775807Ei"])
def test_every_amount_is_a_number(amount: str | float) -> None:
    """Amounts as a real server accepts them: more than there is, or nothing."""
    pod = make_pod(make_container(resources={"limits": {"memory": amount}}))
    room = {"memory": 2.0**30, "pods": 10.0}
    lack = find_lack({}, room, pod_requests(pod))
    assert bool(lack) is (pod_requests(pod)["memory"] > 2.0**30)
    assert (memory_limit(pod["spec"]["containers"][0]) or 0) < 2**64


def test_a_pods_deadline_counts_time_awake_and_may_be_never() -> None:
    started = "2026-01-01T12:00:00.000000000Z"
    assert deadline(make_pod(), started) is None
    pod = make_pod(activeDeadlineSeconds=60)
    assert deadline(pod, started) == NOW + timedelta(seconds=60)
    assert deadline(pod, started, lambda since: 3600.0) == NOW + timedelta(seconds=3660)
    assert deadline(make_pod(activeDeadlineSeconds=2**63 - 1), started) is None
