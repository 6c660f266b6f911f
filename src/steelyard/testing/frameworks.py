"""Contract suite of frameworks: functions that every framework of a training job has to pass.

A test calls each of `CASES` with a job of the framework (docs/testing.md shows how). They hold a framework to what the
operator builds on: names that resolve, an environment that distinguishes replicas, a success rule that is met in the
end and never before anything has succeeded.
"""

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import dl_job, parse, replica_objects
from steelyard.operator.training.frameworks.framework import Framework, Placement
from steelyard.operator.training.labels import NAME_LIMIT
from steelyard.operator.training.model import Counts, ReplicaId, Tally, TrainingJob
from steelyard_common.types import Json

Case = Callable[[TrainingJob], None]
CASES: dict[str, Case] = {}
"""All cases by name; each raises AssertionError if the framework of the job breaks the contract."""
_KINDS = {"ConfigMap", "Role", "RoleBinding", "Secret", "ServiceAccount"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_job(manifest: Json, framework: Framework | Json) -> TrainingJob:
    """Read the manifest of a job, in a namespace of its own, as the operator does.

    The framework is one in Python, or the manifest of a Framework that a DLJob names. Raises Invalid for a job that
    cannot run as it is written.
    """
    metadata = {"namespace": "default", "uid": "1", **manifest["metadata"]}
    resource = {**manifest, "metadata": metadata}
    if isinstance(framework, Framework):
        return parse.parse_job(resource, framework, OperatorSettings())
    settings = OperatorSettings(frameworks={framework["metadata"]["name"]: framework})
    return dl_job.read(resource, settings)


job_of = read_job
"""Name that tests of earlier versions import."""


def case(function: Case) -> Case:
    """Add a function to the suite."""
    CASES[function.__name__] = function
    return function


# ---- what it is


@case
def it_has_a_name_a_port_and_roles_of_different_names(job: TrainingJob) -> None:
    framework = job.framework
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", framework.label)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", framework.port_name), (
        "a port's name has 15 characters"
    )
    assert 1 <= framework.port <= 65535
    names = [role.name.lower() for role in framework.roles]
    assert len(set(names)) == len(names)
    assert names
    assert {*framework.masters, *([framework.scalable] if framework.scalable else [])} <= _role_names(
        framework
    )


@case
def roles_can_have_as_many_replicas_as_they_get_by_default(job: TrainingJob) -> None:
    for role in job.framework.roles:
        assert role.minimum <= role.default_replicas <= (role.maximum or role.default_replicas), role.name
        assert role.indexed or role.maximum == 1, f"{role.name}: a name without an index is of one replica"
        assert job.framework.scope(role, job.roles.keys(), job.spec) in {"Pod", "ReplicaType", "Job"}


@case
def messages_need_no_more_than_there_is(job: TrainingJob) -> None:
    messages = job.framework.make_messages(job)
    for template in vars(messages).values():
        message = template.format(
            kind=job.kind, name=job.name, namespace=job.namespace, count=2, role="Worker"
        )
        assert job.name in message


@case
def it_takes_its_own_job(job: TrainingJob) -> None:
    job.framework.check(job)
    job.framework.rules(job)


# ---- names


@case
def names_differ_and_are_host_names(job: TrainingJob) -> None:
    names = [job.replica_name(replica_id) for replica_id in job.replica_ids]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) for name in names)
    assert all(len(name) <= NAME_LIMIT for name in names)


@case
def hosts_in_the_environment_resolve(job: TrainingJob) -> None:
    """Every name of this job's form in the environment is the name of a replica that the job has."""
    framework = job.framework
    hosts = {framework.host(job, replica_id) for replica_id in job.replica_ids}
    pattern = re.compile(rf"\b{re.escape(job.name)}-[a-z]+(?:-[a-z]+)*-[0-9]+(?:\.{re.escape(job.name)}\b)?")
    for replica_id in job.replica_ids:
        for name, value in framework.environment(Placement(job, replica_id)).items():
            if isinstance(value, str):
                assert set(pattern.findall(value)) <= hosts, f"{name} of {replica_id}"


# ---- environment


@case
def an_environment_is_made_of_texts_and_references(job: TrainingJob) -> None:
    for replica_id in job.replica_ids:
        for name, value in job.framework.environment(Placement(job, replica_id)).items():
            assert _VARIABLE.fullmatch(name)
            assert isinstance(value, str) or value.keys() <= {
                "fieldRef",
                "resourceFieldRef",
                "configMapKeyRef",
                "secretKeyRef",
            }


@case
def an_environment_is_always_the_same(job: TrainingJob) -> None:
    before = copy.deepcopy(job.resource)
    for replica_id in job.replica_ids:
        once, again = (dict(job.framework.environment(Placement(job, replica_id))) for _ in range(2))
        assert once == again
    assert job.resource == before, "it changed the job"


@case
def no_two_replicas_have_one_rank(job: TrainingJob) -> None:
    """Check that a variable which numbers the replicas of a role gives no number twice.

    Some launchers number replicas themselves, so that no variable may do so.
    """
    for role in job.roles.values():
        environments = [
            job.framework.environment(Placement(job, ReplicaId(role.name, index)))
            for index in range(role.count)
        ]
        for name in environments[0] if environments else ():
            numbers = [environment[name] for environment in environments if name in environment]
            if len(set(map(str, numbers))) > 1 and all(str(number).isdecimal() for number in numbers):
                assert len(set(map(str, numbers))) == len(numbers), f"{name} of {role.name}"


@case
def values_of_the_user_are_kept(job: TrainingJob) -> None:
    changed = copy.deepcopy(job.resource)
    for role in changed["spec"][job.framework.specs].values():
        for container in role["template"]["spec"]["containers"]:
            container["env"] = [
                {"name": name, "value": "mine"}
                for name in {
                    name
                    for replica_id in job.replica_ids
                    for name in job.framework.environment(Placement(job, replica_id))
                }
            ]
    mine = _with_resource(job, changed)
    for replica_id in mine.replica_ids:
        for container in replica_objects.pod(mine, replica_id, 0)["spec"]["containers"]:
            values = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
            assert set(values.values()) <= {"mine"}, replica_id
            assert len(values) == len(container.get("env", [])), "a name twice"


# ---- Pods and the objects that belong to them


@case
def a_pod_is_the_users_template_and_what_the_framework_adds(job: TrainingJob) -> None:
    before = copy.deepcopy(job.resource)
    for replica_id in job.replica_ids:
        pod = replica_objects.pod(job, replica_id, 0)
        template = job.roles[replica_id.role].template["spec"]
        assert [container["name"] for container in pod["spec"]["containers"]] == [
            container["name"] for container in template["containers"]
        ]
        assert pod["metadata"]["name"] == job.replica_name(replica_id)
        assert pod["spec"].items() >= {key: template[key] for key in template if key in _UNTOUCHED}.items()
    assert job.resource == before, "it changed the template"


@case
def objects_beside_the_pods_have_names_of_the_job(job: TrainingJob) -> None:
    extras = job.framework.extras(job)
    assert len({(obj["kind"], obj["metadata"]["name"]) for obj in extras}) == len(extras)
    for extra in extras:
        assert extra["kind"] in _KINDS
        assert extra["metadata"]["name"].startswith(f"{job.name}-")
        assert "ownerReferences" not in extra["metadata"], "the operator says whose it is"


# ---- success


@case
def a_job_without_replicas_neither_runs_nor_has_succeeded(job: TrainingJob) -> None:
    success_rule = job.framework.success_rule(job, Tally({}))
    assert not success_rule.running
    assert not success_rule.succeeded


@case
def a_job_whose_replicas_all_run_runs(job: TrainingJob) -> None:
    tally = Tally({role.name: Counts(active=role.count) for role in job.roles.values()})
    success_rule = job.framework.success_rule(job, tally)
    assert success_rule.running
    assert not success_rule.succeeded


@case
def a_job_whose_replicas_have_all_succeeded_has_succeeded(job: TrainingJob) -> None:
    tally = Tally(
        {role.name: Counts(succeeded=role.count) for role in job.roles.values()}, frozenset(job.replica_ids)
    )
    assert job.framework.success_rule(job, tally).succeeded


@case
def success_is_never_taken_back_by_more_success(job: TrainingJob) -> None:
    reached = False
    for tally in _ending_one_by_one(job):
        now = job.framework.success_rule(job, tally).succeeded
        assert now or not reached
        reached = now
    assert reached


@case
def failures_alone_are_no_success(job: TrainingJob) -> None:
    tally = Tally({role.name: Counts(failed=role.count) for role in job.roles.values()})
    assert not job.framework.success_rule(job, tally).succeeded


def _ending_one_by_one(job: TrainingJob) -> Iterator[Tally]:
    done: list[ReplicaId] = []
    for replica_id in job.replica_ids:
        done.append(replica_id)
        counts = {
            role.name: Counts(
                active=role.count - sum(replica_id.role == role.name for replica_id in done),
                succeeded=sum(replica_id.role == role.name for replica_id in done),
            )
            for role in job.roles.values()
        }
        yield Tally(counts, frozenset(done))


_UNTOUCHED = {
    "nodeSelector",
    "tolerations",
    "affinity",
    "hostNetwork",
    "priorityClassName",
    "securityContext",
}


def _role_names(framework: Framework) -> set[str]:
    return {role.name for role in framework.roles}


def _with_resource(job: TrainingJob, resource: Json) -> TrainingJob:
    given = {name.lower(): role for name, role in resource["spec"][job.framework.specs].items()}
    roles = {
        name: replace(role, template=given[name.lower()]["template"]) for name, role in job.roles.items()
    }
    return replace(job, resource=resource, roles=roles)
