"""MPIJob: the files that `mpirun` reads, what the launcher may do, and that both follow the workers."""

from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training import parse
from steelyard.operator.training import replica_objects as replica
from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.frameworks.test_frameworks import environment, job_of
from steelyard.operator.training.model import ReplicaId
from steelyard.operator.training.simulation.job_simulation import JobSimulation, make_job, make_template
from steelyard_kube.resource import CONFIG_MAPS, ROLES


def test_the_launcher_of_mpi_may_run_commands_in_its_workers_alone() -> None:
    job = job_of("MPIJob", _spec={"slotsPerWorker": 2, "mainContainer": "mpi"}, Launcher=1, Worker=2)
    config, account, role, binding = job.framework.extras(job)
    assert config["data"]["hostfile"] == "job-worker-0 slots=2\njob-worker-1 slots=2\n"
    assert (
        '/opt/kube/kubectl exec ${POD_NAME} --container mpi -- /bin/sh -c "$*"'
        in config["data"]["kubexec.sh"]
    )
    assert config["data"]["discover_hosts.sh"] == "#!/bin/sh"
    assert [obj["metadata"]["name"] for obj in (config, account, role, binding)] == [
        "job-config",
        *["job-launcher"] * 3,
    ]
    assert role["rules"][1]["resourceNames"] == ["job-worker-0", "job-worker-1"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "job-launcher", "namespace": "default"}]


def test_the_pods_of_mpi() -> None:
    job = job_of("MPIJob", Launcher=1, Worker=1)
    launcher, worker = (replica.pod(job, ReplicaId(role, 0), 0) for role in ("Launcher", "Worker"))
    assert launcher["metadata"]["name"] == "job-launcher"
    assert launcher["spec"]["serviceAccountName"] == "job-launcher"
    assert [container["name"] for container in launcher["spec"]["initContainers"]] == ["kubectl-delivery"]
    given = {variable["name"]: variable["value"] for variable in launcher["spec"]["containers"][0]["env"]}
    assert given == {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
        "PRTE_MCA_plm_ssh_agent": "/etc/mpi/kubexec.sh",
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    }
    (container,) = worker["spec"]["containers"]
    assert (container["command"], container["args"]) == (["sleep"], ["365d"])
    assert "initContainers" not in worker["spec"]
    assert not list(replica.services(job))


def test_a_launcher_whose_image_has_kubectl_gets_no_init_container() -> None:
    job = job_of("MPIJob", TrainingSettings(kubectl_delivery_image=""), Launcher=1, Worker=1)
    launcher = replica.pod(job, ReplicaId("Launcher", 0), 0)["spec"]
    assert "initContainers" not in launcher
    assert [volume["name"] for volume in launcher["volumes"]] == ["mpi-job-config"]
    assert "\nkubectl exec " in job.framework.extras(job)[0]["data"]["kubexec.sh"]


def test_a_launcher_with_gpus_takes_part() -> None:
    resource = make_job("MPIJob", {"Launcher": 1, "Worker": 1})
    resource["spec"]["mpiReplicaSpecs"]["Launcher"]["template"] = make_template(
        "mpi", resources={"limits": {"nvidia.com/gpu": 1}}
    )
    job = parse.parse_job(resource, ALL["MPIJob"], OperatorSettings())
    assert job.framework.extras(job)[0]["data"]["hostfile"].startswith("job-launcher slots=1\n")
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(job, "Launcher")


def test_files_and_leave_follow_the_workers() -> None:
    simulation = JobSimulation(make_job("MPIJob", {"Launcher": 1, "Worker": 1})).settle().run().settle()

    def hosts() -> str:
        (config,) = simulation.store.objects(CONFIG_MAPS, "default")
        return str(config["data"]["discover_hosts.sh"])

    assert hosts() == "#!/bin/sh\necho job-worker-0:1"
    simulation.scale("Worker", 2).settle()
    assert hosts() == "#!/bin/sh\necho job-worker-0:1", "who does not run yet is not named"
    simulation.run().settle()
    assert hosts() == "#!/bin/sh\necho job-worker-0:1\necho job-worker-1:1"
    (role,) = simulation.store.objects(ROLES, "default")
    assert role["rules"][1]["resourceNames"] == ["job-worker-0", "job-worker-1"]
