"""Output of a job, from its success to the Model: each step is recorded before the next, nothing is created
twice.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.operator.children import Children
from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training import labels
from steelyard.operator.training.dl_job import reconcile
from steelyard.operator.training.frameworks.pytorch import PYTORCH
from steelyard.operator.training.model import Invalid, ReplicaId, Role, RunPolicy, TrainingJob
from steelyard.operator.training.output_folder import check, mount_folder, read_output
from steelyard.operator.training.outputs import OutputProgress, model_id, reconcile_output
from steelyard_common.types import Json
from steelyard_schema.resources import RESOURCES

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRAINING = TrainingSettings(outputs="/state/outputs")
SETTINGS = OperatorSettings(storage="file:///storage", training=TRAINING)
CONTAINER = {"name": "pytorch", "image": "localhost/steelyard/steps"}
CLAIM: Json = {
    "containers": [{**CONTAINER, "volumeMounts": [{"name": "work", "mountPath": "/results"}]}],
    "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": "work"}}],
}


def make_job(
    status: Json | None = None,
    training: TrainingSettings = TRAINING,
    spec: Json | None = None,
    **annotations: str,
) -> TrainingJob:
    given = {f"steelyard/{name.replace('_', '-')}": text for name, text in annotations.items()}
    resource = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits", "namespace": "default", "uid": "uid-1", "annotations": given}
        | {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {"outputs": status} if status else {},
    }
    template = {"spec": spec or {"containers": [CONTAINER]}}
    roles = {name: Role(name, 1, template, "Never", "Job") for name in ("Master", "Worker")}
    return TrainingJob(resource, PYTORCH, roles, RunPolicy(), settings=training)


def make_carrier(state: str = "", message: str = "", reason: str = "") -> Children:
    """The Job that carries, and its Pod."""
    conditions = [{"type": state, "status": "True", "reason": reason}] if state else []
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    metadata = {"name": "digits-output-a1", "namespace": "default", "uid": "uid-of-carrier"}
    job = {
        "kind": "Job",
        "metadata": metadata,
        "status": {"conditions": [{**condition, **times} for condition in conditions]},
    }
    ended = {"exitCode": 0 if state == "Complete" else 1, "message": message}
    owner = {"uid": "uid-of-carrier", "controller": True}
    status = {"containerStatuses": [{"name": "step", "state": {"terminated": ended}}]}
    pod = {"kind": "Pod", "metadata": {"name": "p", "ownerReferences": [owner]}, "status": status}
    return Children((job,), (pod,))


def following(job: TrainingJob, children: Children = Children()) -> OutputProgress:  # noqa: B008 - a value
    progress = reconcile_output(job, children, NOW, SETTINGS)
    assert progress is not None
    return progress


def test_a_job_that_promises_nothing_leaves_nothing() -> None:
    assert reconcile_output(make_job(), Children(), NOW, SETTINGS) is None
    pod = {"spec": {"containers": [CONTAINER]}}
    assert mount_folder(pod, make_job(), ReplicaId("Master", 0)) == pod


def test_first_a_job_carries_the_output_away() -> None:
    progress = following(make_job(output_model="digits", code_digest="sha256:c"))
    config, carrier = progress.create
    configuration = json.loads(config["data"]["config.json"])
    assert (configuration["step"], configuration["spec"]["path"]) == ("carry_output", "/var/steelyard/output")
    assert configuration["spec"]["storage"] == {"output": "file:///storage/trainings/uid-1"}
    assert configuration["spec"]["lineage"]["code"] == "sha256:c"
    spec = carrier["spec"]["template"]["spec"]
    folder = {"path": "/state/outputs/default/digits-uid-1", "type": "Directory"}
    assert {"name": "steelyard-output", "hostPath": folder} in spec["volumes"]
    mount = {"name": "steelyard-output", "mountPath": "/var/steelyard/output", "readOnly": True}
    assert mount in spec["containers"][0]["volumeMounts"]
    assert labels.JOB_NAME not in carrier["metadata"]["labels"], "clients would take its Pod for a replica"
    assert (progress.status["state"], progress.pending) == ("Carrying", True)


def test_while_it_carries_nothing_else_is_made() -> None:
    progress = following(make_job({"state": "Carrying"}, output_model="digits"), make_carrier())
    assert (progress.create, progress.status["state"]) == ((), "Carrying")


def test_the_digests_are_recorded_before_the_model_is_made() -> None:
    said = {"files": 2, "bytes": 3 << 20, "output": "sha256:o", "data": "sha256:d"}
    messages = json.dumps({"code": "Complete", "message": json.dumps(said)})
    job = make_job({"state": "Carrying"}, output_model="digits")
    carried = following(job, make_carrier("Complete", messages))
    assert (carried.create, carried.status["state"], carried.pending) == ((), "Carried", True)
    assert carried.status["digests"].items() >= {"output": "sha256:o", "data": "sha256:d"}.items()
    registered = following(make_job(carried.status, output_model="digits"))
    (made,) = registered.create
    assert registered.status == {
        **carried.status,
        "state": "Registered",
        "message": f"Model model-{model_id(job)}",
    }
    assert not registered.pending
    parsed = RESOURCES["Model"].spec.parse(made["spec"])
    assert parsed.id == model_id(job)
    assert made["spec"]["resources"] == {"storage": "3Mi"}
    assert made["spec"]["storage"]["inputs"] == {"source": "trainings/uid-1"}
    assert "ownerReferences" not in made["metadata"], "it would go with the job"
    assert following(make_job(registered.status, output_model="digits")).create == ()


def test_without_its_last_words_the_output_is_still_registered() -> None:
    job = make_job({"state": "Carrying"}, output_model="digits")
    (carrier,) = make_carrier("Complete").objects
    assert following(job, Children((carrier,))).status["state"] == "Carried"


def test_an_output_that_cannot_be_carried_says_why() -> None:
    messages = json.dumps({"code": "OutputMissing", "message": "there is no file in /var/steelyard/output"})
    job = make_job({"state": "Carrying"}, output_model="digits")
    progress = following(job, make_carrier("Failed", messages, "BackoffLimitExceeded"))
    assert progress.status["message"] == "OutputMissing: there is no file in /var/steelyard/output"
    assert (progress.create, progress.status["state"], progress.pending) == ((), "Failed", False)


def test_for_the_platform_the_operator_makes_no_model() -> None:
    job = make_job({"state": "Carried", "location": "t"}, output_model="digits", output_register="Platform")
    assert (following(job).create, following(job).status["state"]) == ((), "Carried")


def test_the_writer_gets_a_folder_of_the_job_and_the_others_do_not() -> None:
    job = make_job(output_model="digits")
    pod: Json = {"spec": {"containers": [CONTAINER, {"name": "sidecar"}]}}
    made = mount_folder(pod, job, ReplicaId("Master", 0))
    first, sidecar = made["spec"]["containers"]
    assert {"name": "STEELYARD_OUTPUT", "value": "/var/steelyard/output"} in first["env"]
    assert sidecar == {"name": "sidecar"}
    assert made["spec"]["volumes"][0]["hostPath"]["type"] == "DirectoryOrCreate"
    assert mount_folder(pod, job, ReplicaId("Worker", 0)) == pod


def test_the_users_own_claim_and_variable_are_used() -> None:
    job = make_job(spec=CLAIM, training=TrainingSettings(), output_model="digits", output_path="/results/out")
    check(job, SETTINGS.model_copy(update={"training": TrainingSettings()}))
    env = [{"name": "STEELYARD_OUTPUT", "value": "/elsewhere"}]
    pod = {"spec": {**CLAIM, "containers": [{**CLAIM["containers"][0], "env": env}]}}
    assert mount_folder(pod, job, ReplicaId("Master", 0)) == pod
    carrier = following(job).create[1]["spec"]["template"]["spec"]
    assert {**CLAIM["volumes"][0], "name": "steelyard-output"} in carrier["volumes"]
    assert {"name": "steelyard-output", "mountPath": "/results", "readOnly": True} in carrier["containers"][
        0
    ]["volumeMounts"]


def test_a_claim_that_the_job_names_has_a_folder_of_the_job() -> None:
    bare = TrainingSettings()
    job = make_job(training=bare, output_model="digits", output_claim="models")
    check(job, SETTINGS.model_copy(update={"training": bare}))
    pod: Json = {"spec": {"containers": [CONTAINER]}}
    spec = mount_folder(pod, job, ReplicaId("Master", 0))["spec"]
    claim = {"name": "steelyard-output", "persistentVolumeClaim": {"claimName": "models"}}
    mount = {"name": "steelyard-output", "mountPath": "/var/steelyard/output", "subPath": "digits-uid-1"}
    assert (spec["volumes"], spec["containers"][0]["volumeMounts"]) == ([claim], [mount])
    assert mount_folder(pod, job, ReplicaId("Worker", 0)) == pod, "a claim may be for one node"
    carrier = following(job).create[1]["spec"]["template"]["spec"]
    assert claim in carrier["volumes"]
    assert {**mount, "readOnly": True} in carrier["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("said", "user", "root", "capabilities"),
    [
        pytest.param({}, 0, True, ["DAC_OVERRIDE"], id="nobody knows the image's user"),
        pytest.param({"runAsUser": 1000}, 1000, False, None, id="the writer's user"),
        pytest.param({"runAsUser": 0}, 0, True, None, id="root"),
        pytest.param({"runAsNonRoot": True}, None, False, None, id="root is forbidden"),
    ],
)
def test_who_reads_a_claim(said: Json, user: int | None, root: bool, capabilities: list[str] | None) -> None:
    spec = {**CLAIM, "securityContext": {**said, "fsGroup": 7}}
    job = make_job(spec=spec, output_model="digits", output_path="/results")
    carrier = following(job).create[1]["spec"]["template"]["spec"]
    context, own = carrier["securityContext"], carrier["containers"][0]["securityContext"]
    assert (context.get("runAsUser"), context["runAsNonRoot"], context["fsGroup"]) == (user, not root, 7)
    assert own["capabilities"].get("add") == capabilities
    assert (own["capabilities"]["drop"], own["allowPrivilegeEscalation"]) == (["ALL"], False)


@pytest.mark.parametrize(
    ("changes", "settings", "fault"),
    [
        pytest.param({"output_path": "out"}, SETTINGS, "absolute path", id="a relative path"),
        pytest.param(
            {"output_register": "Nobody"}, SETTINGS, "Resource or Platform", id="an unknown registrar"
        ),
        pytest.param(
            {"output_claim": "My Claim"}, SETTINGS, "'My Claim' is not a valid name", id="no name of a claim"
        ),
        pytest.param({}, OperatorSettings(training=TRAINING), "setting storage is empty", id="no storage"),
        pytest.param({}, OperatorSettings(storage="s3://b"), "persistentVolumeClaim", id="nowhere to write"),
    ],
)
def test_refused_with_the_field_named(
    changes: dict[str, Any], settings: OperatorSettings, fault: str
) -> None:
    with pytest.raises(Invalid, match=fault) as refused:
        check(make_job(output_model="digits", **changes), settings)
    assert refused.value.field.startswith("metadata.annotations[steelyard/output-")


def test_a_dl_job_names_the_role_that_writes() -> None:
    job = make_job()
    said = {"model": {"name": "m", "path": "/out", "role": "Evaluator"}}
    job.resource["spec"]["outputs"] = said
    output = read_output(job)
    assert output is not None
    assert (output.model, output.path, output.replica_id) == ("m", "/out", ReplicaId("Evaluator", 0))
    with pytest.raises(Invalid, match=r"spec\.outputs\.model\.role: 'Evaluator' is not a role"):
        check(job, SETTINGS)


def test_a_job_does_not_go_before_its_output_is_kept() -> None:
    ended = {"type": "Succeeded", "status": "True", "reason": "PyTorchJobSucceeded", "message": ""}
    job = make_job(output_model="digits").resource
    template = {"spec": {"containers": [CONTAINER]}}
    job["spec"] = {
        "runPolicy": {"ttlSecondsAfterFinished": 0},
        "pytorchReplicaSpecs": {"Master": {"template": template}},
    }
    job["status"] = {"conditions": [ended], "completionTime": "2026-01-01T00:00:00Z"}
    first = reconcile(job, Children(), NOW, SETTINGS)
    assert (first.delete_resource, first.status["outputs"]["state"]) == (False, "Carrying")
    job["status"]["outputs"] = {"state": "Carried", "location": "trainings/uid-1", "model": "digits"}
    registering = reconcile(job, Children(), NOW, SETTINGS)
    assert (registering.delete_resource, registering.status["outputs"]["state"]) == (True, "Registered")
    assert [obj["kind"] for obj in registering.create] == ["Model"]
