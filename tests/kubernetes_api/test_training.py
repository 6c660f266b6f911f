# ruff: noqa: E501 - tables are read by their rows
"""Training jobs: refusals when they are applied, and their form for v1's clients."""

import copy
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_schema.crd import custom_resource_definitions
from steelyard_schema.training.kinds import TRAINING
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS, established

CONTAINERS = {
    "TFJob": ("tensorflow", "Worker"),
    "PyTorchJob": ("pytorch", "Worker"),
    "MXJob": ("mxnet", "Worker"),
    "JAXJob": ("jax", "Worker"),
    "XGBoostJob": ("xgboost", "Master"),
    "PaddleJob": ("paddle", "Worker"),
    "MPIJob": ("mpi", "Launcher"),
    "DLJob": ("main", "worker"),
}


def template(container: str, **fields: Any) -> Json:
    return {"spec": {"containers": [{"name": container, "image": "localhost/none:1", **fields}]}}


def training_job(kind: str, name: str = "job", **spec: Any) -> Json:
    """The smallest job of a kind, with differences in its spec."""
    container, role = CONTAINERS[kind]
    fields: Json = {TRAINING[kind].replicas: {role: {"template": template(container)}}}
    fields |= {"jobMode": "MXTrain"} if kind == "MXJob" else {"framework": "own"} if kind == "DLJob" else {}
    merged = {key: value for key, value in {**fields, **spec}.items() if value is not None}
    version = f"{TRAINING[kind].group}/{TRAINING[kind].version}"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": merged}


def path(kind: str, namespace: str) -> str:
    known = TRAINING[kind]
    return f"/apis/{known.group}/{known.version}/namespaces/{namespace}/{known.plural}"


_SERVED: set[str] = set()


@pytest.fixture
async def served(api: Api, namespace: str) -> str:
    """A namespace, with the kinds of training jobs served."""
    if api.url not in _SERVED:
        await _serve(api)
        _SERVED.add(api.url)
    return namespace


async def _serve(api: Api) -> None:
    names = {f"{kind.plural}.{kind.group}" for kind in TRAINING.values()}
    for crd in custom_resource_definitions():
        if crd["metadata"]["name"] in names and (await api.post(CRDS, crd)).status != 409:
            await established(api, crd["metadata"]["name"])
    for kind in TRAINING.values():
        where = f"/apis/{kind.group}/{kind.version}/{kind.plural}"

        async def there(where: str = where) -> bool:
            return (await api.get(where)).status == 200

        await api.eventually(there, where)


@pytest.mark.parametrize("kind", CONTAINERS)
async def test_a_small_job_of_every_kind_is_taken_and_gets_a_run_policy(
    api: Api, served: str, kind: str
) -> None:
    made = (await api.post(path(kind, served), training_job(kind))).ok(201).json
    assert made["spec"]["runPolicy"] == {"suspend": False}
    table = await api.get(path(kind, served), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table.json["columnDefinitions"]] == ["Name", "State", "Age"]


async def test_a_template_is_kept_as_it_is(api: Api, served: str) -> None:
    whole = template(
        "pytorch",
        command=["sh"],
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    )
    whole["metadata"] = {"labels": {"a": "b"}, "annotations": {"sidecar.istio.io/inject": "false"}}
    whole["spec"] |= {
        "hostNetwork": True,
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
    }
    specs = {"WORKER": {"replicas": 2, "restartPolicy": "ExitCode", "template": whole}}
    made = await api.post(path("PyTorchJob", served), training_job("PyTorchJob", pytorchReplicaSpecs=specs))
    assert made.ok(201).json["spec"]["pytorchReplicaSpecs"] == specs
    assert not made.warnings


def _roles(kind: str, **roles: Any) -> Json:
    """Return the roles of v1 kinds: types with the differences of their replicas."""
    container = CONTAINERS[kind][0]
    return {
        TRAINING[kind].replicas: {
            name: {"template": template(container), **fields} for name, fields in roles.items()
        }
    }


REFUSED: list[tuple[str, Json, str]] = [
    ("no types", training_job("PyTorchJob", pytorchReplicaSpecs={}), "spec.pytorchReplicaSpecs"),
    ("no types at all", training_job("PyTorchJob", pytorchReplicaSpecs=None), "spec.pytorchReplicaSpecs"),
    ("a type that is none", training_job("PyTorchJob", **_roles("PyTorchJob", Wroker={})), "the types are Master, Worker"),
    ("another's type", training_job("TFJob", **_roles("TFJob", Launcher={})), "the types are Chief, Master, PS, Worker, Evaluator"),
    ("two masters", training_job("PyTorchJob", **_roles("PyTorchJob", Master={"replicas": 2})), "Master: exactly one replica"),
    ("no workers", training_job("JAXJob", **_roles("JAXJob", Worker={"replicas": 0})), "Worker: at least one replica"),
    ("no master", training_job("XGBoostJob", **_roles("XGBoostJob", Worker={})), "needs the type Master"),
    ("no launcher", training_job("MPIJob", **_roles("MPIJob", Worker={})), "needs the type Launcher"),
    ("chief and master", training_job("TFJob", **_roles("TFJob", Chief={}, Master={})), "has both Chief and Master"),
    ("fewer than none", training_job("TFJob", **_roles("TFJob", Worker={"replicas": -1})), "tfReplicaSpecs.Worker.replicas"),
    ("a container by another name", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": template("main")}}), "a container named tensorflow"),
    ("variables as text", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": template("tensorflow", env="A=1")}}), "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env"),
    ("a number for a variable", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": template("tensorflow", env=[{"name": "A", "value": 1}])}}), "containers[0].env[0].value"),
    ("a port beyond the last", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": template("tensorflow", ports=[{"containerPort": 65536}])}}), "containers[0].ports[0].containerPort"),
    ("more than a number of v1 holds", training_job("TFJob", runPolicy={"backoffLimit": 2**31}), "spec.runPolicy.backoffLimit"),
    ("no container", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": {"spec": {"containers": []}}}}), "spec.tfReplicaSpecs.Worker.template.spec.containers"),
    ("no image", training_job("TFJob", tfReplicaSpecs={"Worker": {"template": template("tensorflow", image="")}}), "containers[0].image"),
    ("no template", training_job("TFJob", tfReplicaSpecs={"Worker": {}}), "tfReplicaSpecs.Worker.template"),
    ("a restart policy that is none", training_job("TFJob", **_roles("TFJob", Worker={"restartPolicy": "Sometimes"})), "restartPolicy"),
    ("a clean-up that is none", training_job("TFJob", runPolicy={"cleanPodPolicy": "Some"}), "spec.runPolicy.cleanPodPolicy"),
    ("a manager that is none", training_job("TFJob", runPolicy={"managedBy": "me"}), "spec.runPolicy.managedBy"),
    ("a limit below none", training_job("TFJob", runPolicy={"backoffLimit": -1}), "spec.runPolicy.backoffLimit"),
    ("a name with a digit first", training_job("TFJob", "0-test"), "begin with a letter"),
    ("a name with dots", training_job("TFJob", "a.b"), "metadata.name"),
    ("a name too long for its Pods", training_job("TFJob", "a" * 55), "has to fit in 63 characters"),
    ("a name too long for its hundredth Pod", training_job("TFJob", "a" * 54, **_roles("TFJob", Worker={"replicas": 11})), "has to fit in 63 characters"),
    ("elastic without workers", training_job("PyTorchJob", **_roles("PyTorchJob", Master={}), elasticPolicy={"minReplicas": 1}), "needs the type Worker"),
    ("bounds that cross", training_job("PyTorchJob", elasticPolicy={"minReplicas": 3, "maxReplicas": 2}), "is more than maxReplicas"),
    ("processes twice", training_job("PyTorchJob", nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}), "give one of them"),
    ("no job mode", training_job("MXJob", jobMode=None), "spec.jobMode"),
    ("two clean-ups", training_job("MPIJob", cleanPodPolicy="All", runPolicy={"cleanPodPolicy": "None"}), "says something else"),
    ("two frameworks", training_job("DLJob", frameworkSpec={}), "give framework or frameworkSpec"),
    ("no framework", training_job("DLJob", framework=None), "give framework or frameworkSpec"),
    ("a role's name", training_job("DLJob", roles={"Worker": {"template": template("main")}}), "spec.roles: a role's name"),
    ("success of nobody", training_job("DLJob", successPolicy={"roles": ["boss"]}), "spec.successPolicy.roles: names a role"),
    ("a failure of nobody", training_job("DLJob", failureRules=[{"action": "Fail", "roles": ["boss"]}]), "spec.failureRules[].roles: names a role"),
    ("an output of nobody", training_job("DLJob", outputs={"model": {"name": "m", "path": "/o", "role": "boss"}}), "spec.outputs.model.role: names a role"),
    ("waiting for nobody", training_job("DLJob", roles={"a": {"template": template("main"), "dependsOn": [{"role": "b"}]}}), "dependsOn: names a role that is not there"),
    ("waiting for itself", training_job("DLJob", roles={"a": {"template": template("main"), "dependsOn": [{"role": "a"}]}}), "a role would wait for itself"),
    ("two numbers for success", training_job("DLJob", successPolicy={"count": 1, "percent": 50}), "count or percent"),
    ("an output that is no path", training_job("DLJob", outputs={"model": {"name": "m", "path": "out"}}), "spec.outputs.model.path"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_what_cannot_be_run_is_refused_with_the_fields_name(
    api: Api, served: str, job: Json, message: str
) -> None:
    answer = await api.post(path(job["kind"], served), job)
    assert (answer.status, answer.json.get("reason")) == (422, "Invalid"), answer.json
    assert message in answer.message


async def test_the_longest_name_that_fits_is_taken(api: Api, served: str) -> None:
    (await api.post(path("TFJob", served), training_job("TFJob", "a" * 54))).ok(201)
    launched = path("MPIJob", served), _roles("MPIJob", Launcher={}, Worker={"replicas": 2})
    (await api.post(launched[0], training_job("MPIJob", "a" * 54, **launched[1]))).ok(201)
    assert (await api.post(launched[0], training_job("MPIJob", "a" * 55, **launched[1]))).status == 422


FIXED = [
    ({"managedBy": "kubeflow.org/training-operator"}, {"managedBy": "kueue.x-k8s.io/multikueue"}, "managedBy is immutable"),
    ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}, "managedBy is immutable"),
    ({"schedulingPolicy": {"queue": "a"}}, {"schedulingPolicy": {"queue": "b"}}, "queue is immutable"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "message"), FIXED, ids=[case[2] for case in FIXED])
async def test_what_is_fixed_stays_and_the_rest_may_change(
    api: Api, served: str, before: Json, after: Json, message: str
) -> None:
    where = path("PyTorchJob", served)
    (await api.post(where, training_job("PyTorchJob", runPolicy=copy.deepcopy(before)))).ok(201)
    refused = await api.merge(f"{where}/job", {"spec": {"runPolicy": after}})
    assert refused.status == 422
    assert message in refused.message
    (await api.merge(f"{where}/job", {"spec": {"runPolicy": {"suspend": True, "backoffLimit": 1}}})).ok(200)
    scaled = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}}
    (await api.merge(f"{where}/job", scaled)).ok(200)


async def test_workers_are_scaled(api: Api, served: str) -> None:
    where = path("JAXJob", served)
    (await api.post(where, training_job("JAXJob", **_roles("JAXJob", Worker={"replicas": 2})))).ok(201)
    status = {"replicaStatuses": {"Worker": {"active": 1, "selector": "a=b"}}}
    (await api.merge(f"{where}/job/status", {"status": status})).ok(200)
    scale = (await api.get(f"{where}/job/scale")).ok(200).json
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    (await api.merge(f"{where}/job/scale", {"spec": {"replicas": 4}})).ok(200)
    assert (await api.get(f"{where}/job")).json["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"] == 4


async def test_a_framework_belongs_to_no_namespace(api: Api, served: str) -> None:
    where = "/apis/dyff.io/v1alpha1/frameworks"
    spec = {"roles": [{"name": "worker"}], "environment": [{"name": "RANK", "value": "${rank}"}]}
    body = {"apiVersion": "dyff.io/v1alpha1", "kind": "Framework", "metadata": {"name": served}, "spec": spec}
    made = (await api.post(where, body)).ok(201).json["spec"]
    assert (made["port"], made["roles"][0]["restartScope"]) == (29500, "Job")
    (await api.delete(f"{where}/{served}")).ok(200)
    body["spec"] = {"environment": [{"name": "2", "value": ""}]}
    assert "spec.environment[0].name" in (await api.post(where, body)).message
    wrong: list[tuple[Json, str]] = [
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "roles: a name is there twice"),
        ({"roles": [{"name": "a"}], "successPolicy": {"roles": ["b"]}}, "successPolicy.roles: names a role"),
        (
            {"roles": [{"name": "a"}], "environment": [{"name": "A", "value": "", "roles": ["b"]}]},
            "names a role",
        ),
        ({"environment": [{"name": "A", "value": ""}] * 2}, "environment: a name is there twice"),
    ]
    for body["spec"], message in wrong:
        assert message in (await api.post(where, body)).message
    for value in ("${rnk}", "${worker.adresses}", "${worker.x.host}", "${"):
        body["spec"] = {"environment": [{"name": "A", "value": value}]}
        assert "there is no such name" in (await api.post(where, body)).message, value
    for value in ("", "$(B) $C $$ $${x}", "${rank}/${world.size}\n${ps.0.address}", "{}$"):
        body["spec"] = {"environment": [{"name": "A", "value": value}]}
        (await api.post(f"{where}?dryRun=All", body)).ok(201)
