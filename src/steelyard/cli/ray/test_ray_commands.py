"""The commands of `steelyard ray`, `queue` and `appwrapper`: files, forms of output, refusals in one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.cli.ray.connecting import namespaces_text, next_command, read_config, show
from steelyard.cli.train.cluster import ClusterOptions
from steelyard.clusters import BadConfig
from steelyard_common.errors import UsageError

RUN = CliRunner()


@pytest.mark.parametrize("words", ["ray", "ray job", "queue", "appwrapper"])
def test_each_group_lists_its_commands(words: str) -> None:
    assert "list" in RUN.invoke(app, [*words.split(), "--help"]).output


def test_all_faults_of_a_file_come_at_once_before_a_cluster_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("name: demo\nimage: 'not an image!!'\nworkers: [{replicas: -3}]\n")
    kubeconfig = tmp_path / "missing"
    result = RUN.invoke(app, ["ray", "apply", "-f", str(file), "--kubeconfig", str(kubeconfig)])
    assert isinstance(result.exception, BadConfig)
    assert {fault.field for fault in result.exception.faults} == {"image", "workers.0.replicas"}


def test_the_demos_are_copied_once_and_never_over_work_that_is_there(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["ray", "demos", str(tmp_path / "new" / "demos")])
    copied = sorted((tmp_path / "new" / "demos").glob("*.ipynb"))
    assert result.exit_code == 0
    assert len(copied) == result.output.count(".ipynb") == 6
    for notebook in copied:
        made = json.loads(notebook.read_text())
        assert made["nbformat"] == 4
        assert all(cell.get("outputs", []) == [] for cell in made["cells"]), (
            "a committed notebook has no outputs"
        )
    copied[0].write_text("mine")
    copied[1].unlink()
    result = RUN.invoke(app, ["ray", "demos", str(tmp_path / "new" / "demos")])
    assert isinstance(result.exception, UsageError)
    assert copied[0].read_text() == "mine"
    assert not copied[1].exists()


@pytest.mark.parametrize("content", ["[1]", "a: [", "", "{apiVersion: ray.io/v1, kind: RayCluster}"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(UsageError, match=r"x\.yaml"):
        read_config(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("form", "shown"),
    [("name", "raycluster/demo\n"), ("table", "NAME\ndemo\n"), ("json", '"kind"'), ("yaml", "kind:")],
)
def test_forms_of_output(capsys: pytest.CaptureFixture[str], form: str, shown: str) -> None:
    show([{"kind": "RayCluster", "metadata": {"name": "demo"}}], ["NAME"], [["demo"]], form)
    assert shown in capsys.readouterr().out


def test_a_cell_of_a_table_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show([{}, {}], ["NAME", "WHY"], [["a", "exit code 1, last logs:\nline\nline"], ["b", ""]], "table")
    assert capsys.readouterr().out == "NAME  WHY\na     exit code 1, last logs: ...\nb\n"


def test_the_managers_of_fields_are_left_out_as_by_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"kind": "X", "metadata": {"name": "a", "managedFields": [{}]}}], [], [], "yaml")
    assert "managedFields" not in capsys.readouterr().out


def test_a_command_that_is_named_next_finds_the_same_cluster(tmp_path: Path) -> None:
    options = ClusterOptions(namespace="team", kubeconfig=tmp_path / "config")
    named = next_command(options, "ray wait demo")
    assert named.endswith(f"ray wait demo --kubeconfig {tmp_path}/config -n team")
    named = next_command(options, "ray wait demo", namespace="of-the-file")
    assert named.endswith(f"ray wait demo --kubeconfig {tmp_path}/config -n of-the-file")


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: team, context: {cluster: c, user: u, namespace: team-a}}
- {name: none, context: {cluster: c, user: u}}
current-context: team
"""


@pytest.mark.parametrize(
    ("options", "namespace", "flags"),
    [
        ({}, "team-a", ""),
        ({"context": "none"}, "default", " --context none"),
        ({"namespace": "other"}, "other", " -n other"),
        ({"namespace": "default"}, "default", " -n default"),
        ({"context": "missing"}, "default", " --context missing"),
    ],
)
def test_a_command_without_a_namespace_means_that_of_the_context(
    tmp_path: Path, options: dict[str, str], namespace: str, flags: str
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    cluster = ClusterOptions(kubeconfig=tmp_path / "config", **options)  # type: ignore[arg-type]
    assert cluster.find().namespace == namespace
    assert next_command(cluster, "ray list").endswith(f"ray list --kubeconfig {tmp_path}/config{flags}")
    assert namespaces_text(cluster, False) == f" in namespace {namespace}"


def test_an_empty_table_names_the_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ["NAME"], [], "table", namespaces_text(ClusterOptions(namespace="team"), False))
    show([], ["NAME"], [], "table", namespaces_text(ClusterOptions(namespace="team"), True))
    assert capsys.readouterr().out == "nothing found in namespace team\nnothing found in any namespace\n"
