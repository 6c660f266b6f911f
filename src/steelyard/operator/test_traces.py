"""The trace of a workflow in the children that the operator makes."""

from steelyard.operator.traces import carry, read_trace
from steelyard_common.types import Json
from steelyard_schema.names import TRACE

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECEIVER = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def make_job(*commands: str) -> Json:
    containers = [{"name": command, "command": ["python", "-m", command]} for command in commands]
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def names(container: Json) -> set[str]:
    return {variable["name"] for variable in container["env"]}


def test_our_steps_send_spans_and_others_know_where_they_stand() -> None:
    before = make_job("steelyard.steps.run_report", "their.program")
    job = carry(before, PARENT, RECEIVER)
    ours, theirs = job["spec"]["template"]["spec"]["containers"]
    assert names(ours) == {"TRACEPARENT", *RECEIVER}
    assert names(theirs) == {"TRACEPARENT"}
    assert read_trace(job) == PARENT
    assert before == make_job("steelyard.steps.run_report", "their.program")  # it must not be changed


def test_what_a_container_sets_itself_is_left_alone() -> None:
    pod: Json = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [], "initContainers": []}}
    own = {"name": "TRACEPARENT", "value": "mine"}
    pod["spec"]["containers"] = [{"name": "c", "env": [own]}]
    assert carry(pod, PARENT, {})["spec"]["containers"][0]["env"] == [own]


def test_without_a_trace_a_child_is_as_it_was() -> None:
    job = make_job("steelyard.steps.run_report")
    assert carry(job, None, RECEIVER) == job
    config: Json = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    assert carry(config, PARENT, RECEIVER) == config


def test_an_annotation_that_is_no_traceparent_is_ignored() -> None:
    for annotation in ("nonsense", 7, None):
        assert read_trace({"metadata": {"annotations": {TRACE: annotation}}}) is None
