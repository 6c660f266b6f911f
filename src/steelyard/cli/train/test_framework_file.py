"""A framework by its file: what the cluster would refuse or drop is refused with the path of its field."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard.cli.train.framework_file import read
from steelyard.clusters.training.errors import BadJob
from steelyard_common.errors import UsageError
from steelyard_common.types import Json

AVERAGING: Json = {
    "apiVersion": "dyff.io/v1alpha1",
    "kind": "Framework",
    "metadata": {"name": "averaging"},
    "spec": {
        "port": 7000,
        "roles": [{"name": "coordinator", "minimum": 1}, {"name": "worker", "default": 2}],
        "environment": [{"name": "RANK", "value": "${rank}"}],
        "successPolicy": {"roles": ["coordinator"]},
    },
}


def write(path: Path, change: Callable[[Json], object]) -> Path:
    """Write the framework with one change."""
    framework: Json = yaml.safe_load(yaml.safe_dump(AVERAGING))
    change(framework)
    path.write_text(yaml.safe_dump(framework))
    return path


def test_a_framework_is_what_its_file_holds(tmp_path: Path) -> None:
    assert read(write(tmp_path / "averaging.yaml", lambda whole: None)) == AVERAGING


WRONG: dict[str, tuple[Callable[[Json], object], str]] = {
    "a field that is misspelt": (
        lambda whole: whole["spec"].update(enviroment=[]),
        "spec.enviroment: there is no such field; did you mean environment?",
    ),
    "a field of a role that is misspelt": (
        lambda whole: whole["spec"]["roles"][1].update(defalt=4),
        "spec.roles[1].defalt: there is no such field; did you mean default?",
    ),
    "a field of a variable that is misspelt": (
        lambda whole: whole["spec"]["environment"][0].update(role=["worker"]),
        "spec.environment[0].role: there is no such field; did you mean roles?",
    ),
    "a field of the success policy that is misspelt": (
        lambda whole: whole["spec"]["successPolicy"].update(persent=50),
        "spec.successPolicy.persent: there is no such field; did you mean percent?",
    ),
    "another version": (
        lambda whole: whole.update(apiVersion="dyff.io/v1"),
        "apiVersion: should be dyff.io/v1alpha1, not 'dyff.io/v1'",
    ),
    "no version": (lambda whole: whole.pop("apiVersion"), "apiVersion: should be dyff.io/v1alpha1, not null"),
    "another kind": (
        lambda whole: whole.update(kind="DLJob"),
        "should hold one resource of kind Framework",
    ),
    "no name": (lambda whole: whole["metadata"].pop("name"), "metadata.name is missing"),
    "no spec": (lambda whole: whole.pop("spec"), "spec: should be"),
    "a spec that is a list": (lambda whole: whole.update(spec=[]), "spec: should be"),
    "a role without a name": (lambda whole: whole["spec"]["roles"][1].pop("name"), "spec.roles.1.name: "),
    "a port that is a text": (lambda whole: whole["spec"].update(port="x"), "spec.port: "),
    "a number in quotes": (lambda whole: whole["spec"].update(port="7000"), "spec.port: "),
    "a port that is too large": (lambda whole: whole["spec"].update(port=65_536), "spec.port: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_cluster_would_refuse_or_drop_is_named(name: str, tmp_path: Path) -> None:
    change, fault = WRONG[name]
    path = write(tmp_path / "averaging.yaml", change)
    with pytest.raises(UsageError, match=re.escape(f"--framework {path}: {fault}")):
        read(path)


def dry_run(tmp_path: Path, change: Callable[[Json], object]) -> Result:
    script, framework = tmp_path / "train.py", write(tmp_path / "averaging.yaml", change)
    script.write_text("print()")
    words = [
        "train",
        "run",
        str(script),
        "--dry-run",
        "--name",
        "job",
        "--output-model",
        "mean",
        "--framework",
        str(framework),
    ]
    return CliRunner().invoke(app, [*words, "--state-dir", str(tmp_path / "state")])


def test_a_dry_run_prints_the_framework_before_its_job(tmp_path: Path) -> None:
    done = dry_run(tmp_path, lambda whole: None)
    assert done.exit_code == 0, done.output
    framework, job = yaml.safe_load_all(done.stdout)
    assert framework == AVERAGING
    assert (job["kind"], job["spec"]["framework"]) == ("DLJob", "averaging")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda whole: whole["spec"]["environment"][0].update(value="${prot}"),
            r"environment\[0\].value: .*prot",
        ),
        (
            lambda whole: whole["spec"]["environment"][0].update(value="${server.count}"),
            r"environment\[0\].value: ",
        ),
        (lambda whole: whole["spec"]["successPolicy"].update(roles=["chief"]), "the job has no role 'chief'"),
        (lambda whole: whole["spec"]["roles"][0].update(maximum=1, minimum=2), "has to be at most 1, not 2"),
    ],
    ids=["an unknown name", "a role that is not there", "success of a role that is not there", "bounds"],
)
def test_a_dry_run_refuses_what_the_operator_would(
    change: Callable[[Json], object], fault: str, tmp_path: Path
) -> None:
    done = dry_run(tmp_path, change)
    assert isinstance(done.exception, BadJob)
    assert re.search(f"the operator would refuse the job: .*{fault}", str(done.exception))
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda whole: whole["spec"]["environment"].append({"name": "RANK", "value": "0"}),
            "averaging: spec: environment: a name is there twice",
        ),
        (
            lambda whole: whole["spec"]["successPolicy"].update(count=1, percent=50),
            "averaging: spec.successPolicy: successPolicy: give count or percent, not both",
        ),
        (lambda whole: whole["metadata"].update(name="9x"), "9x: metadata.name: must be lower-case letters"),
    ],
    ids=["of the spec", "of a field in it", "of the whole"],
)
def test_a_dry_run_checks_the_rules_of_the_definitions(
    change: Callable[[Json], object], fault: str, tmp_path: Path
) -> None:
    done = dry_run(tmp_path, change)
    assert isinstance(done.exception, BadJob)
    assert f"the cluster would refuse Framework {fault}" in str(done.exception)
    assert done.stdout == ""
