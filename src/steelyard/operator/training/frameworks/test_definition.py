"""Frameworks that are written as resources: their names in `${…}`, and refusals."""

from typing import Any

import pytest

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import dl_job
from steelyard.operator.training import replica_objects as replica
from steelyard.operator.training.frameworks import definition
from steelyard.operator.training.frameworks.framework import Placement
from steelyard.operator.training.model import Counts, Invalid, ReplicaId, Tally, TrainingJob
from steelyard.operator.training.simulation.job_simulation import NAMESPACE, JobSimulation, make_template
from steelyard_common.types import Json

SPEC: Json = {
    "container": "main",
    "portName": "server",
    "port": 7000,
    "roles": [
        {"name": "server", "minimum": 1, "maximum": 1},
        {"name": "worker", "default": 2, "restartScope": "Pod"},
    ],
    "environment": [
        {"name": "RANK", "value": "${rank}"},
        {"name": "SERVER", "value": "${server.0.address}"},
        {"name": "WORKERS", "value": "${worker.hosts}", "roles": ["server"]},
    ],
    "successPolicy": {"roles": ["worker"]},
}


def make_framework(name: str = "own", **spec: Any) -> Json:
    return {"kind": "Framework", "metadata": {"name": name}, "spec": {**SPEC, **spec}}


def make_dl_job(roles: Json | None = None, **spec: Any) -> Json:
    """`roles` are replicas by role; those of `spec` win."""
    counts = {"server": 1, "worker": 2} if roles is None else roles
    given = {name: {"replicas": count, "template": make_template("main")} for name, count in counts.items()}
    return {
        "apiVersion": "dyff.io/v1alpha1",
        "kind": "DLJob",
        "metadata": {
            "name": "job",
            "namespace": NAMESPACE,
            "uid": "uid-of-job",
            "resourceVersion": "1",
        },
        "spec": {"framework": "own", "roles": given, "runPolicy": {}, **spec},
    }


def settings(*frameworks: Json) -> OperatorSettings:
    known = {framework["metadata"]["name"]: framework for framework in frameworks or (make_framework(),)}
    return OperatorSettings(storage="file:///storage", frameworks=known)


def read(job: Json, *frameworks: Json) -> TrainingJob:
    return dl_job.read(job, settings(*frameworks))


def filled(text: str, role: str = "worker", index: int = 1, **spec: Any) -> object:
    framework = make_framework(environment=[{"name": "A", "value": text}], **spec)
    job = read(make_dl_job(), framework)
    return job.framework.environment(Placement(job, ReplicaId(role, index)))["A"]


NAMES = [
    ("${job.name} ${job.namespace}", "job default"),
    ("${role} ${index} ${rank} of ${world.size}", "worker 1 2 of 3"),
    ("${host}:${port}", "job-worker-1.job:7000"),
    ("${server.count} ${worker.count}", "1 2"),
    ("${worker.hosts}", "job-worker-0.job,job-worker-1.job"),
    ("${worker.addresses}", "job-worker-0.job:7000,job-worker-1.job:7000"),
    ("${server.0.host} ${server.0.port} ${server.0.address}", "job-server-0.job 7000 job-server-0.job:7000"),
    (
        "${cluster.json}",
        '{"server":["job-server-0.job:7000"],"worker":["job-worker-0.job:7000","job-worker-1.job:7000"]}',
    ),
    ("$(OTHER) $${host} $$ $ {}", "$(OTHER) ${host} $$ $ {}"),
]


@pytest.mark.parametrize(("text", "value"), NAMES, ids=[text for text, _ in NAMES])
def test_names_are_filled_in(text: str, value: str) -> None:
    assert filled(text) == value


def test_a_role_that_the_job_does_not_have_has_no_hosts() -> None:
    framework = make_framework(environment=[{"name": "A", "value": "<${server.hosts}> ${server.count}"}])
    framework["spec"]["roles"] = [{"name": "server"}, {"name": "worker"}]
    job = read(make_dl_job({"worker": 1}), framework)
    assert job.framework.environment(Placement(job, ReplicaId("worker", 0)))["A"] == "<> 0"


UNKNOWN = [
    "${rnk}",
    "${boss.hosts}",
    "${worker.boss}",
    "${worker.x.host}",
    "${worker.0.boss}",
    "${}",
    "${",
    "${worker.7.host}",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_name_that_does_not_exist_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        filled(f"${{{text}}}")
    assert refusal.value.field == "spec.framework own.environment[0].value"
    assert "there are job.name" in str(refusal.value) or "the job has 2 replicas" in str(refusal.value)


def test_a_name_that_does_not_end_is_refused() -> None:
    with pytest.raises(Invalid, match="no closing brace"):
        filled("${host")


def test_one_service_gives_every_replica_its_name() -> None:
    job = read(make_dl_job())
    (service,) = replica.services(job)
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("job", "None")
    assert service["spec"]["publishNotReadyAddresses"]
    spec = replica.pod(job, ReplicaId("worker", 1), 0)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("job-worker-1", "job")


def test_who_decides_and_what_starts_again() -> None:
    job = read(make_dl_job())
    seen = Tally({"server": Counts(active=1), "worker": Counts(succeeded=2)})
    assert job.framework.success_rule(job, seen).succeeded
    assert {role.name: role.scope for role in job.roles.values()} == {"server": "Job", "worker": "Pod"}
    assert job.policy.clean_pods == "Running"
    own = read(make_dl_job(successPolicy={"count": 1}, restartScope="ReplicaType"))
    assert own.framework.success_rule(own, Tally({"worker": Counts(active=1, succeeded=1)})).succeeded
    assert {role.scope for role in own.roles.values()} == {"ReplicaType"}


WRONG: list[tuple[str, Json, str, str]] = [
    ("neither", make_dl_job(framework=None), "spec.framework", "one of them"),
    ("both", make_dl_job(frameworkSpec={}), "spec.framework", "one of them"),
    ("a role that is none", make_dl_job({"boss": 1}), "spec.roles.boss", "there are server, worker"),
    ("no server", make_dl_job({"worker": 1}), "spec.roles.server", "is required"),
    ("two servers", make_dl_job({"server": 2}), "spec.roles.server.replicas", "at most 1"),
    ("a port", make_dl_job(framework=None, frameworkSpec={"port": 0}), "spec.frameworkSpec.port", "greater than"),
    ("a field", make_dl_job(framework=None, frameworkSpec={"prot": 0}), "spec.frameworkSpec.prot",
     "is not a field here, with the value 0; there are container, "),
    ("success of nobody", make_dl_job(successPolicy={"roles": ["x"]}), "spec.successPolicy.roles", "it has server"),
    ("success of too many", make_dl_job(successPolicy={"count": 4}), "spec.successPolicy.count", "3 replicas in all"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "field", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_what_cannot_run_is_refused_by_the_field(job: Json, field: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refusal:
        read(job)
    assert refusal.value.field == field


def test_a_framework_that_changes_changes_no_job_that_has_begun() -> None:
    simulation = JobSimulation(make_dl_job(), settings()).settle()
    assert simulation.status["framework"]["port"] == 7000
    begun = read({**make_dl_job(), "status": simulation.status}, make_framework(port=9))
    assert begun.framework.port == 7000
    gone = read({**make_dl_job(), "status": simulation.status}, make_framework("other"))
    assert gone.framework.port == 7000


def test_a_job_waits_for_its_framework() -> None:
    """A job that is applied together with its Framework may arrive first."""
    with pytest.raises(definition.NoSuchFramework, match="no Framework 'late'; there are: own"):
        read(make_dl_job(framework="late"))
    simulation = JobSimulation(make_dl_job(framework="late"), settings()).settle()
    assert not simulation.pods()
    assert not simulation.status.get("conditions")


def test_a_job_runs_to_its_success() -> None:
    simulation = JobSimulation(make_dl_job(), settings()).settle()
    assert sorted(simulation.pods()) == ["job-server-0", "job-worker-0", "job-worker-1"]
    assert simulation.services() == ["job"]
    simulation.run()
    assert simulation.state == "Running"
    simulation.end("job-worker-0").end("job-worker-1").settle()
    assert simulation.state == "Succeeded"
    assert simulation.condition("Succeeded")["message"] == "DLJob job is successfully completed."  # type: ignore[index]
    assert sorted(simulation.pods()) == ["job-worker-0", "job-worker-1"], "what still ran is cleaned up"
