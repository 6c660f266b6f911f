# ruff: noqa: E501 - tables are read by their rows
"""Environments and rules of success of the built-in frameworks equal those of v1, variable by variable.

`steelyard/testing/test_frameworks.py` runs the contract suite of frameworks on them.
"""

import json

import pytest

from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training import parse, validate
from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.frameworks.framework import Placement
from steelyard.operator.training.model import Counts, Invalid, ReplicaId, Tally, TrainingJob
from steelyard.operator.training.simulation.job_simulation import make_job, make_template
from steelyard_common.types import Json
from steelyard_schema.training import kubeflow
from steelyard_schema.training.kinds import TRAINING

OWN_ADDRESS = {"fieldRef": {"fieldPath": "status.podIP"}}


def job_of(
    kind: str, _settings: TrainingSettings | None = None, /, _spec: Json | None = None, **replicas: int
) -> TrainingJob:
    spec = {"jobMode": "MXTrain"} if kind == "MXJob" else {}
    resource = make_job(kind, replicas, **{**spec, **(_spec or {})})
    return parse.parse_job(resource, ALL[kind], OperatorSettings(training=_settings or TrainingSettings()))


def environment(job: TrainingJob, role: str, index: int = 0) -> Json:
    return dict(job.framework.environment(Placement(job, ReplicaId(role, index))))


JOBS = {
    "TensorFlow, mirrored": job_of("TFJob", Worker=3),
    "TensorFlow, parameter servers": job_of("TFJob", Chief=1, PS=2, Worker=2, Evaluator=1),
    "TensorFlow, dynamic": job_of("TFJob", _spec={"enableDynamicWorker": True}, PS=2, Worker=3),
    "PyTorch": job_of("PyTorchJob", Master=1, Worker=3),
    "PyTorch, workers alone": job_of("PyTorchJob", Worker=3),
    "PyTorch, elastic": job_of("PyTorchJob", _spec={"elasticPolicy": {"minReplicas": 1}}, Worker=3),
    "MXNet": job_of("MXJob", Scheduler=1, Server=2, Worker=3),
    "MXNet, tuning": job_of("MXJob", _spec={"jobMode": "MXTune"}, TunerTracker=1, TunerServer=2, Tuner=1),
    "JAX": job_of("JAXJob", Worker=3),
    "XGBoost": job_of("XGBoostJob", Master=1, Worker=3),
    "Paddle": job_of("PaddleJob", Worker=3),
    "Paddle, parameter server": job_of("PaddleJob", Master=1, Worker=2),
    "MPI": job_of("MPIJob", Launcher=1, Worker=3),
}


TYPES = {
    "TFJob": kubeflow.TENSORFLOW, "PyTorchJob": kubeflow.PYTORCH, "MXJob": kubeflow.MXNET, "JAXJob": kubeflow.JAX,
    "XGBoostJob": kubeflow.XGBOOST, "PaddleJob": kubeflow.PADDLE, "MPIJob": kubeflow.MPI,
}  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_the_schema_and_the_operator_say_the_same_of_a_kind(kind: str) -> None:
    framework, types = ALL[kind], TYPES[kind]
    assert (framework.specs, framework.scalable) == (
        types.field,
        {"PyTorchJob": "Worker", "JAXJob": "Worker", "PaddleJob": "Worker"}.get(kind, ""),
    )
    assert tuple(role.name for role in framework.roles) == types.names
    assert (framework.container if framework.requires_container else "") == types.container
    assert TRAINING[kind].replicas == types.field
    for role in framework.roles:
        assert role.required == (role.name in types.required), role.name
        assert (role.minimum >= 1) == (
            role.name in (*types.at_least_one, *types.single) and role.minimum >= 1
        )
        assert (role.maximum == 1) == (role.name in types.single), role.name


V1 = {
    "TFJob": ("tfjob-controller", "tfReplicaSpecs", "tensorflow", "tfjob-port", 2222, "Never"),
    "PyTorchJob": (
        "pytorchjob-controller",
        "pytorchReplicaSpecs",
        "pytorch",
        "pytorchjob-port",
        23456,
        "OnFailure",
    ),
    "MXJob": ("mxjob-controller", "mxReplicaSpecs", "mxnet", "mxjob-port", 9091, "Never"),
    "MPIJob": ("mpijob-controller", "mpiReplicaSpecs", "mpi", "mpi-port", 9999, "Never"),
    "XGBoostJob": ("xgboostjob-controller", "xgbReplicaSpecs", "xgboost", "xgboostjob-port", 9999, "Never"),
    "PaddleJob": ("paddlejob-controller", "paddleReplicaSpecs", "paddle", "master", 36543, "OnFailure"),
    "JAXJob": ("jaxjob-controller", "jaxReplicaSpecs", "jax", "jaxjob-port", 6666, "Never"),
}


@pytest.mark.parametrize("kind", V1)
def test_names_and_defaults_are_v1s(kind: str) -> None:
    framework = ALL[kind]
    assert (
        framework.label,
        framework.specs,
        framework.container,
        framework.port_name,
        framework.port,
        framework.restart,
    ) == V1[kind]
    assert len(V1) == len(ALL)


# ---- environments, as v1 has them


def test_pytorch() -> None:
    job = job_of("PyTorchJob", _spec={"nprocPerNode": "2"}, Master=1, Worker=2)
    shared = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "23456",
        "PET_MASTER_PORT": "23456",
        "MASTER_ADDR": "job-master-0",
        "PET_MASTER_ADDR": "job-master-0",
        "WORLD_SIZE": "6",
        "PET_NPROC_PER_NODE": "2",
        "PET_NNODES": "3",
    }
    assert environment(job, "Master") == {**shared, "RANK": "0", "PET_NODE_RANK": "0"}
    assert environment(job, "Worker", 1) == {**shared, "RANK": "2", "PET_NODE_RANK": "2"}


def test_pytorch_without_a_master_has_its_ranks_from_worker_0_on() -> None:
    job = job_of("PyTorchJob", Worker=2)
    variables = environment(job, "Worker", 1)
    assert {name: variables[name] for name in ("MASTER_ADDR", "WORLD_SIZE", "RANK")} == {
        "MASTER_ADDR": "job-worker-0",
        "WORLD_SIZE": "2",
        "RANK": "1",
    }
    assert variables["PET_NPROC_PER_NODE"] == "auto"


def test_elastic_pytorch() -> None:
    policy = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "maxRestarts": 3,
        "rdzvId": "x",
        "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
        "standalone": True,
    }
    variables = environment(job_of("PyTorchJob", _spec={"elasticPolicy": policy}, Worker=2), "Worker")
    assert {
        name: value for name, value in variables.items() if name.startswith("PET_") and "MASTER" not in name
    } == {
        "PET_NODE_RANK": "0",
        "PET_NPROC_PER_NODE": "auto",
        "PET_RDZV_ENDPOINT": "job-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:4",
        "PET_MAX_RESTARTS": "3",
        "PET_RDZV_ID": "x",
        "PET_RDZV_CONF": "a=1,b=2",
        "PET_STANDALONE": "",
    }
    other = {"rdzvBackend": "etcd", "rdzvHost": "etcd", "rdzvPort": 2379, "maxReplicas": 3, "nProcPerNode": 4}
    variables = environment(job_of("PyTorchJob", _spec={"elasticPolicy": other}, Worker=2), "Worker")
    assert (
        variables["PET_RDZV_ENDPOINT"],
        variables["PET_RDZV_BACKEND"],
        variables["PET_NNODES"],
        variables["PET_NPROC_PER_NODE"],
    ) == ("etcd:2379", "etcd", "3:3", "4")


def test_tensorflow() -> None:
    job = job_of("TFJob", Worker=2, PS=1)
    assert environment(job, "Worker", 1) == {
        "TF_CONFIG": '{"cluster":{"ps":["job-ps-0.default.svc:2222"],'
        '"worker":["job-worker-0.default.svc:2222","job-worker-1.default.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    }
    assert environment(job_of("TFJob", Worker=1), "Worker") == {}
    domain = job_of("TFJob", TrainingSettings(cluster_domain="cluster.local"), Worker=2)
    assert '"job-worker-0.default.svc.cluster.local:2222"' in environment(domain, "Worker")["TF_CONFIG"]


def test_an_evaluator_is_in_the_cluster_of_tensorflow() -> None:
    config = json.loads(environment(job_of("TFJob", Chief=1, Evaluator=1), "Evaluator")["TF_CONFIG"])
    assert list(config["cluster"]) == ["chief", "evaluator"]


def test_dynamic_workers_of_tensorflow_know_the_servers_and_themselves() -> None:
    job = job_of("TFJob", _spec={"enableDynamicWorker": True}, PS=2, Worker=2)
    assert environment(job, "Worker", 1)["TF_CONFIG"] == (
        '{"cluster":{"worker":{"1":"job-worker-1.default.svc:2222"},'
        '"ps":["job-ps-0.default.svc:2222","job-ps-1.default.svc:2222"]},"task":{"type":"worker","index":1}}'
    )
    assert (
        '"cluster":{"worker":{},"ps":["job-ps-1.default.svc:2222"]}' in environment(job, "PS", 1)["TF_CONFIG"]
    )


def test_mxnet() -> None:
    """Section 6, K: the scheduler by its Service's name, and DMLC_USE_KUBERNETES."""
    job = job_of("MXJob", Scheduler=1, Server=1, Worker=2)
    scheduler = environment(job, "Scheduler")
    config = scheduler.pop("MX_CONFIG")
    assert scheduler == {
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_PS_ROOT_URI": "job-scheduler-0",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": "2",
        "DMLC_ROLE": "scheduler",
        "DMLC_USE_KUBERNETES": "1",
    }
    assert config == (
        '{"cluster":{"scheduler":[{"url":"job-scheduler-0","port":9091}],"server":[{"url":"job-server-0","port":9091}],'
        '"worker":[{"url":"job-worker-0","port":9091},{"url":"job-worker-1","port":9091}]},'
        '"labels":{"scheduler":"","server":"","worker":""},"task":{"type":"scheduler","index":0}}'
    )
    worker = environment(job, "Worker", 1)
    assert (worker["DMLC_ROLE"], worker["DMLC_WORKER_ID"], worker["DMLC_NODE_HOST"]) == (
        "worker",
        "1",
        OWN_ADDRESS,
    )
    alone = environment(job_of("MXJob", Worker=1), "Worker")
    assert (alone["DMLC_PS_ROOT_URI"], alone["DMLC_PS_ROOT_PORT"]) == ("", "0")


def test_an_interface_that_the_user_names_is_not_overruled() -> None:
    resource = make_job("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}, jobMode="MXTrain")
    resource["spec"]["mxReplicaSpecs"]["Worker"]["template"] = make_template(
        "mxnet", env=[{"name": "DMLC_INTERFACE", "value": "eth1"}]
    )
    job = parse.parse_job(resource, ALL["MXJob"], OperatorSettings())
    assert "DMLC_NODE_HOST" not in environment(job, "Worker")
    assert "DMLC_NODE_HOST" in environment(job, "Server")


def test_jax() -> None:
    assert environment(job_of("JAXJob", Worker=2), "Worker", 1) == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": "6666",
        "COORDINATOR_ADDRESS": "job-worker-0",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
    }


def test_xgboost_and_lightgbm() -> None:
    shared = {"MASTER_PORT": "9999", "MASTER_ADDR": "job-master-0", "PYTHONUNBUFFERED": "1"}
    assert environment(job_of("XGBoostJob", Master=1), "Master") == {**shared, "WORLD_SIZE": "1", "RANK": "0"}
    assert environment(job_of("XGBoostJob", Master=1, Worker=2), "Worker", 1) == {
        **shared,
        "WORLD_SIZE": "3",
        "RANK": "2",
        "WORKER_PORT": "9999",
        "WORKER_ADDRS": "job-worker-0,job-worker-1",
    }


def test_paddle() -> None:
    shared = {"PYTHONUNBUFFERED": "1", "PADDLE_JOB_ID": "job", "PADDLE_NNODES": "2"}
    job = job_of("PaddleJob", Worker=2)
    assert environment(job, "Worker") == {
        **shared,
        "POD_IP_DUMMY": OWN_ADDRESS,
        "PADDLE_MASTER": "$(POD_IP_DUMMY):36543",
    }
    assert environment(job, "Worker", 1) == {**shared, "PADDLE_MASTER": "job-worker-0:36543"}
    served = job_of("PaddleJob", Master=1, Worker=1)
    assert environment(served, "Master")["PADDLE_SERVER_NUM"] == "1"
    assert environment(served, "Worker") == {
        **shared,
        "PADDLE_MASTER": "job-master-0:36543",
        "PADDLE_TRAINER_NUM": "1",
    }


@pytest.mark.parametrize(
    ("kind", "leader"), [("PaddleJob", "Master"), ("MXJob", "Scheduler"), ("TFJob", "PS")]
)
def test_a_type_without_replicas_is_named_all_the_same(kind: str, leader: str) -> None:
    counts: Json = {leader: 0, "Worker": 2}
    assert environment(job_of(kind, **counts), "Worker", 1)


def test_a_port_of_the_template_is_the_one_that_counts() -> None:
    resource = make_job("JAXJob", {"Worker": 2})
    ports = [{"name": "other", "containerPort": 1}, {"name": "jaxjob-port", "containerPort": 7000}]
    resource["spec"]["jaxReplicaSpecs"]["Worker"]["template"] = make_template("jax", ports=ports)
    job = parse.parse_job(resource, ALL["JAXJob"], OperatorSettings())
    assert environment(job, "Worker")["COORDINATOR_PORT"] == "7000"


# ---- who decides, and what starts again


def tally(**roles: Counts) -> Tally:
    return Tally(
        roles,
        frozenset(
            ReplicaId(name, index) for name, counts in roles.items() for index in range(counts.succeeded)
        ),
    )


DONE, RUNS, TWO_DONE = Counts(succeeded=1), Counts(active=1), Counts(succeeded=2)
DECIDES: list[tuple[str, TrainingJob, Tally, bool]] = [
    ("a chief", job_of("TFJob", Chief=1, Worker=2), tally(Chief=DONE, Worker=Counts(active=2)), True),
    ("workers beside a chief", job_of("TFJob", Chief=1, Worker=2), tally(Chief=RUNS, Worker=TWO_DONE), False),
    ("worker 0", job_of("TFJob", Worker=2), Tally({"Worker": Counts(1, 1)}, frozenset({ReplicaId("Worker", 0)})), True),
    ("worker 1", job_of("TFJob", Worker=2), Tally({"Worker": Counts(1, 1)}, frozenset({ReplicaId("Worker", 1)})), False),
    ("worker 0 where all have to", job_of("TFJob", _spec={"successPolicy": "AllWorkers"}, Worker=2), tally(Worker=Counts(1, 1)), False),
    ("a master", job_of("PyTorchJob", Master=1, Worker=2), tally(Master=DONE, Worker=Counts(active=2)), True),
    ("one worker", job_of("PyTorchJob", Worker=2), tally(Worker=Counts(1, 1)), False),
    ("one elastic worker", job_of("PyTorchJob", _spec={"elasticPolicy": {"minReplicas": 1}}, Worker=2), tally(Worker=Counts(1, 1)), True),
    ("a scheduler", job_of("MXJob", Scheduler=1, Server=1, Worker=1), tally(Scheduler=DONE, Worker=RUNS), True),
    ("workers beside a scheduler", job_of("MXJob", Scheduler=1, Server=1, Worker=1), tally(Scheduler=RUNS, Worker=DONE), False),
    ("a tuner", job_of("MXJob", _spec={"jobMode": "MXTune"}, TunerTracker=1, Tuner=1), tally(Tuner=DONE, TunerTracker=RUNS), True),
    ("a launcher", job_of("MPIJob", Launcher=1, Worker=1), tally(Launcher=DONE, Worker=RUNS), True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "seen", "succeeded"), [case[1:] for case in DECIDES], ids=[case[0] for case in DECIDES]
)
def test_who_decides(job: TrainingJob, seen: Tally, succeeded: bool) -> None:
    assert job.framework.success_rule(job, seen).succeeded == succeeded


SCOPES = [
    (job_of("TFJob", Worker=2, Evaluator=1), {"Worker": "Job", "Evaluator": "Pod"}),
    (job_of("TFJob", Chief=1, PS=1, Worker=2), {"Chief": "Job", "PS": "Job", "Worker": "Pod"}),
    (job_of("PyTorchJob", Master=1, Worker=2), {"Master": "Pod", "Worker": "Pod"}),
    (job_of("PyTorchJob", _spec={"elasticPolicy": {"maxReplicas": 3}}, Worker=2), {"Worker": "Pod"}),
    (
        job_of("MXJob", Scheduler=1, Server=1, Worker=1),
        {"Scheduler": "Job", "Server": "Job", "Worker": "Job"},
    ),
]


@pytest.mark.parametrize(
    ("job", "scopes"), SCOPES, ids=[f"{job.kind} {' '.join(job.roles)}" for job, _ in SCOPES]
)
def test_what_starts_again(job: TrainingJob, scopes: dict[str, str]) -> None:
    assert {role.name: role.scope for role in job.roles.values()} == scopes


def test_a_dynamic_worker_of_tensorflow_that_failed_for_good_is_ignored() -> None:
    job = job_of("TFJob", _spec={"enableDynamicWorker": True}, PS=1, Worker=2)
    assert [(rule.action, rule.roles) for rule in job.rules] == [("Ignore", ("Worker",))]
    assert job_of("TFJob", PS=1, Worker=2).rules == ()


WRONG = [
    (job_of("TFJob", Chief=1, Master=1), "spec.tfReplicaSpecs"),
    (job_of("PyTorchJob", _spec={"elasticPolicy": {}}, Master=1), ""),
    (job_of("PyTorchJob", _spec={"elasticPolicy": {"minReplicas": 1}}, Master=1), "spec.elasticPolicy"),
    (job_of("PyTorchJob", _spec={"elasticPolicy": {"minReplicas": 3, "maxReplicas": 1}}, Worker=1), "spec.elasticPolicy.minReplicas"),
    (job_of("MPIJob", _spec={"cleanPodPolicy": "All"}, Launcher=1), ""),
    (job_of("MXJob", Worker=0), ""),
    (job_of("JAXJob", Worker=0), "spec.jaxReplicaSpecs.Worker.replicas"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "field"), WRONG, ids=[f"{job.kind} {field}" for job, field in WRONG])
def test_what_is_wrong_is_said_by_the_field(job: TrainingJob, field: str) -> None:
    if not field:
        validate.check(job)
        return
    with pytest.raises(Invalid) as refusal:
        validate.check(job)
    assert refusal.value.field == field
