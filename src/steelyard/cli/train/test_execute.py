"""`train run` from its flags to a manifest: the manifest, and the refusals before anything is started."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.cli.train import execute, option_values, program
from steelyard.cli.train.cluster import ClusterOptions, ClusterTarget
from steelyard.cli.train.python_image import enter, find_image
from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.frameworks import BY_NAME
from steelyard.local.files import prepare
from steelyard.local.images import prepare_images
from steelyard.local.platform_identity import load_identity
from steelyard.local.state import StateDir
from steelyard_common.errors import SteelyardError, UsageError


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("train.py")
    path.write_text("import torch\n")
    return path


@pytest.fixture
def here(tmp_path: Path) -> ClusterTarget:
    state = StateDir(tmp_path / "state")
    prepare(state)
    prepare_images(state, load_identity(state))
    return ClusterTarget("default", state.kubeconfig, None, state)


def training_request(path: Path, **given: Any) -> execute.TrainingRequest:
    completed = program.Script(path, ("--epochs", "3"))
    return execute.TrainingRequest(**{"script": completed, "framework": "pytorch", "name": "digits", **given})


def test_on_this_machine_the_script_runs_where_it_lies(
    script: Path, here: ClusterTarget, tmp_path: Path
) -> None:
    assert here.state is not None
    before = here.state.images.read_text()
    python = tmp_path / "env" / "bin" / "python"
    given = training_request(script, workers=2, python=python, environment={"A": "1", "PYTHONPATH": "/mine"})
    for _ in range(2):  # the second finds the image
        made, files = execute._manifest(given, here, BY_NAME["pytorch"], dry=False)
    assert files is None
    template = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = template["containers"]
    assert container["command"] == ["python", str(tmp_path / "train.py"), "--epochs", "3"]
    assert container["workingDir"] == str(tmp_path)
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (env["A"], env["PYTHONPATH"]) == ("1", f"/mine:{tmp_path}/state/python")
    assert int(env["OMP_NUM_THREADS"]) >= 1
    assert (tmp_path / "state" / "python" / "steelyard" / "progress.py").exists()
    assert not (tmp_path / "state" / "python" / "steelyard" / "__init__.py").exists()
    images = here.state.images.read_text()
    assert images.startswith(before)
    assert images.count(f'["{container["image"]}"]\npython = "{python}"') == 1
    annotations = made["metadata"]["annotations"]
    assert annotations["steelyard/program"] == "train.py --epochs 3"
    assert annotations["steelyard/code-digest"].startswith("sha256:")


def test_to_a_cluster_the_script_travels(script: Path) -> None:
    Path("model.py").write_text("x = 1")
    for folder in ("a", "c"):
        Path(folder).mkdir()
        Path(folder, "b.py").touch()
    given = training_request(script, image="registry/torch", files=(Path("model.py"),))
    made, files = execute._manifest(
        given, ClusterTarget("team", Path("kubeconfig")), BY_NAME["pytorch"], dry=False
    )
    assert files is not None
    assert files["metadata"] == {"name": "digits-code", "namespace": "team"}
    assert files["binaryData"] == {}
    assert {"train.py", "model.py", "steelyard.progress"} == set(files["data"])
    spec = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["python", "/steelyard/code/train.py", "--epochs", "3"]
    paths = {item["path"] for item in spec["volumes"][0]["configMap"]["items"]}
    assert paths == {"train.py", "model.py", "steelyard/progress.py"}
    for wrong, fault in (
        (training_request(script), "--image: is missing"),
        (
            training_request(script, image="x", files=(Path("a/b.py"), Path("c/b.py"))),
            "two files have the same name",
        ),
    ):
        with pytest.raises(UsageError, match=fault):
            execute._manifest(wrong, ClusterTarget("team", Path("kubeconfig")), BY_NAME["pytorch"], dry=False)


@pytest.mark.parametrize("content", [b"#!/bin/sh\necho", b"\x7fELF\xff\xfe"], ids=["a script", "a binary"])
def test_a_program_that_is_not_python_can_be_executed_there(script: Path, content: bytes) -> None:
    Path("tool").write_bytes(content)
    given = training_request(script, script=program.Script(Path("tool"), ()), image="registry/tool")
    made, files = execute._manifest(
        given, ClusterTarget("team", Path("kubeconfig")), BY_NAME["pytorch"], dry=False
    )
    spec = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["/steelyard/code/tool"]
    code = spec["volumes"][0]["configMap"]
    assert (code["defaultMode"], "tool" in [item["key"] for item in code["items"]]) == (0o755, True)
    assert files is not None
    sent = files["data"].get("tool", "").encode() or base64.b64decode(files["binaryData"]["tool"])
    assert sent == content


def test_an_output_on_a_cluster_has_a_claim(script: Path) -> None:
    given = training_request(script, image="x", output_model="digits", output_claim="models")
    made, _ = execute._manifest(
        given, ClusterTarget("team", Path("kubeconfig")), BY_NAME["pytorch"], dry=False
    )
    assert made["metadata"]["annotations"]["steelyard/output-claim"] == "models"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"framework": None, "script": "plain"}, "--framework: is missing, and plain.py does not say it"),
        ({"python": Path("nowhere")}, "is not a Python interpreter"),
        ({"name": "a" * 63, "image": "x"}, "choose a name of at most 54"),
        ({"workers": 0, "image": "x"}, "no replica at all"),
        ({"workers": 0, "image": "x", "framework": "xgboost"}, "no replica at all"),
        ({"output_claim": "c", "image": "x"}, "name its Model with --output-model"),
        ({"output_claim": "c", "output_model": "m", "image": "x"}, "--output-claim: is for a cluster"),
    ],
)
def test_what_is_wrong_is_said_before_a_platform_is_started(
    given: dict[str, Any], fault: str, script: Path
) -> None:
    if given.get("script"):
        Path("plain.py").write_text("import numpy\n")
        given = {**given, "script": program.Script(Path("plain.py"))}
    with pytest.raises((UsageError, BadJob), match=fault):
        execute._complete(training_request(script, **given), here=True)


def test_a_framework_is_taken_from_the_imports_and_a_name_from_the_script(script: Path) -> None:
    completed = execute._complete(training_request(script, framework=None, name=None, image="x"), here=True)
    assert completed.framework == "pytorch"
    assert (completed.name or "").startswith("train-")


@pytest.mark.parametrize(
    ("read", "given", "fault"),
    [
        (option_values.environment, ["1A=2"], "--env 1A=2: should be NAME=VALUE"),
        (option_values.environment, ["NOT_SET_ANYWHERE"], "is not set here"),
        (option_values.replicas, ["PS"], "--replicas PS: should be TYPE=NUMBER"),
        (option_values.replicas, ["PS=-1"], "--replicas PS=-1: should be TYPE=NUMBER"),
        (option_values.replicas, [f"PS={'9' * 5000}"], "should be TYPE=NUMBER"),
        (option_values.deadline, "soon", "--deadline soon"),
        (
            lambda memory: option_values.resources(None, memory, None),
            "4GB",
            "--memory 4GB: should be a quantity",
        ),
        (lambda cpus: option_values.resources(cpus, "4Gi", None), "two", "--cpus two: should be a quantity"),
    ],
)
def test_flags_that_cannot_be_read_are_named(read: Any, given: Any, fault: str) -> None:
    with pytest.raises(SteelyardError, match=fault):
        read(given)


def test_flags_become_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t")
    assert option_values.environment(["TOKEN", "A=b=c"]) == {"TOKEN": "t", "A": "b=c"}
    assert option_values.resources("2", None, 1) == {"cpu": "2", "nvidia.com/gpu": "1"}
    assert option_values.deadline("2m") == 120


def test_no_platform_is_said_with_the_way_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(
        UsageError, match=r"no platform runs on .*; start it with: .* up --detach --state-dir"
    ):
        ClusterOptions("default", tmp_path / "none", None, None).find()
    monkeypatch.setenv("KUBECONFIG", "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert ClusterOptions("default", None, None, None).find() == ClusterTarget("default", None)


def test_a_dry_run_prints_a_manifest_and_starts_nothing(script: Path, tmp_path: Path) -> None:
    script.write_text("print()")
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    words = ["train", "run", "train.py", "--dry-run", "--framework", "pytorch", "--workers", "3"]
    words += ["--python", str(python)]
    done = CliRunner().invoke(app, [*words, "--state-dir", str(tmp_path / "state")])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout)["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    [container] = yaml.safe_load(done.stdout)["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"][
        "containers"
    ]
    assert f'["{container["image"]}"]\npython = "{python}"\n' in done.stderr
    assert "images.toml" in done.stderr
    assert not (tmp_path / "state").exists()


def test_steelyards_own_python_is_named_in_no_file(here: ClusterTarget) -> None:
    assert here.state is not None
    before = here.state.images.read_text()
    assert find_image(Path(sys.executable)) == "localhost/steelyard/python"
    enter(here.state, Path(sys.executable))
    assert here.state.images.read_text() == before


def test_an_option_that_is_the_script_s_is_an_error_that_says_where_it_goes(script: Path) -> None:
    done = CliRunner().invoke(app, ["train", "run", "train.py", "--epochs", "3"])
    assert done.exit_code == 2
    assert "go after --" in done.output


def test_a_job_of_the_list_form_is_converted(tmp_path: Path) -> None:
    old = {
        "apiVersion": "example.org/v1",
        "kind": "MXJob",
        "metadata": {"name": "old"},
        "spec": [{"replicaType": "worker", "replicas": 2, "image": "mx"}],
    }
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(old))
    done = CliRunner().invoke(app, ["train", "convert", str(tmp_path / "old.yaml")])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout)["spec"]["mxReplicaSpecs"]["Worker"]["replicas"] == 2
    (tmp_path / "old.yaml").write_text(yaml.safe_dump({"kind": "List", "items": [old, old]}))
    of_list = CliRunner().invoke(app, ["train", "convert", str(tmp_path / "old.yaml")])
    assert list(yaml.safe_load_all(of_list.stdout)) == 2 * list(yaml.safe_load_all(done.stdout))
