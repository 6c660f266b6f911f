"""A wrong setting is one line that names it, its value, and what is allowed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from steelyard.local.cluster_access import connect_cluster
from steelyard.settings import Settings, load
from steelyard_common.errors import UsageError


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "egres = 1",
            "settings: egres: is not a field here, with the value 1; there are accounts, api, archive, ",
        ),
        (
            "[egress]\nhost = 'x'",
            "egress.host: is not a field here, with the value 'x'; there are networks, services, ",
        ),
        ("[egress]\nwebhooks = 'x'", "settings: egress.webhooks: should be a list, and is 'x'"),
        (
            "[egress]\nsources = ['https://']",
            "settings: egress.sources.0: should be a host, *.DOMAIN or *, behind http:// where TLS is not needed, "
            "before :PORT where only that port is allowed; is 'https://'",
        ),
        (
            "[webhooks]\nbacklog = 'many'",
            "webhooks.backlog: should be a valid integer, unable to parse string as an ",
        ),
        (
            "[operator.pods]\npull_secrets = ['registry']",
            "settings: operator.pods: cannot be set here. Settings of all Pods that the operator makes: from the table "
            "[pods].",
        ),
        (
            "[operator.step_resources]\ncpu = 'lots'",
            "operator.step_resources.cpu: should be a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi, and is "
            "'lots'",
        ),
        (
            "[operator.step_resources]\nmemory = '4Gi'",
            "operator.step_resources: memory is 4Gi, and should be at most memory_limit, 2Gi",
        ),
    ],
)
def test_a_wrong_setting_is_named(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "steelyard.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as refused:
        load(path, tmp_path)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STEELYARD_API", ""),
        ("STEELYARD_PODS__LABELS", "team=ml"),
        ("steelyard_operator__ray", "on"),
        ("STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS", "s3cret"),
    ],
    ids=["an empty part", "a table", "a part in small letters", "a secret"],
)
def test_a_variable_that_should_be_json_is_named_and_not_repeated(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_API__PORT", "8001")
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as refused:
        load(None, tmp_path)
    assert str(refused.value) == f"{variable}: should be JSON: the value is that of a table or a list"


@pytest.mark.parametrize(
    ("content", "has_run", "namespace", "kubernetes"),
    [
        ("", False, None, "{folder}/kubeconfig"),
        ("", False, "steelyard", "in-cluster"),
        ("", True, "steelyard", "{folder}/kubeconfig"),
        ("kubernetes = 'in-cluster'", True, None, "in-cluster"),
        ("kubernetes = '/etc/kubeconfig'", False, "steelyard", "/etc/kubeconfig"),
    ],
    ids=["on a machine", "in a Pod", "`up` in a Pod", "the Pod's account by name", "a kubeconfig in a Pod"],
)
def test_the_kubernetes_of_a_process_is_the_settings_the_folders_or_the_pods(
    tmp_path: Path, content: str, has_run: bool, namespace: str | None, kubernetes: str
) -> None:
    path = tmp_path / "steelyard.toml"
    path.write_text(content)
    if has_run:
        (tmp_path / "kubeconfig").write_text("{}")
    assert load(path, tmp_path, lambda: namespace).kubernetes == kubernetes.format(folder=tmp_path)


async def test_a_kubeconfig_that_is_missing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="kubeconfig: there is no such file; set `kubernetes`"):
        await connect_cluster(str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError, match="kubernetes in-cluster: this process runs in no Pod"):
        await connect_cluster("in-cluster")


@pytest.mark.parametrize(
    ("content", "namespaces"),
    [
        ("", ("default", "default", "default")),
        ("kubernetes = 'in-cluster'", ("pods", "pods", "pods")),
        ("lease_namespace = 'n'\nkubernetes = 'in-cluster'", ("n", "n", "n")),
        ("lease_namespace = 'n'\n[orchestrator]\nlease_namespace = 'o'", ("n", "n", "o")),
        ("lease_namespace = 'n'\n[operator]\nlease_namespace = 'default'", ("n", "default", "n")),
    ],
    ids=["on a machine", "in a Pod", "by name", "the orchestrator's own", "the operator's own"],
)
def test_leases_lie_in_the_namespace_of_the_installation(
    tmp_path: Path, content: str, namespaces: tuple[str, str, str]
) -> None:
    path, folder = tmp_path / "steelyard.toml", tmp_path / "state"
    path.write_text(content)
    folder.mkdir()
    (folder / "kubeconfig").touch()  # without a setting, another Kubernetes than the Pod's
    loaded = load(path, folder, lambda: "pods")
    leases = (
        loaded.lease_namespace,
        loaded.operator.lease_namespace,
        loaded.orchestrator.lease_namespace,
    )
    assert leases == namespaces


# ---- variables that name files


def load_with(folder: Path, content: str = "") -> Settings:
    path = folder / "steelyard.toml"
    path.write_text(content)
    return load(path, folder / "state")


def name_file(monkeypatch: pytest.MonkeyPatch, variable: str, path: Path, text: str) -> None:
    path.write_text(text)
    monkeypatch.setenv(variable, str(path))


def test_every_setting_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name_file(monkeypatch, "STEELYARD_ACCOUNTS_FILE", tmp_path / "a", "postgresql://s:secret@db/p\n")
    name_file(monkeypatch, "STEELYARD_API__ADMINISTRATOR_TOKEN_FILE", tmp_path / "b", "t" * 32)
    name_file(monkeypatch, "STEELYARD_API__PORT_FILE", tmp_path / "c", "8000\n")
    name_file(
        monkeypatch, "STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS_FILE", tmp_path / "d", '{"AWS_REGION":"x"}'
    )
    name_file(monkeypatch, "STEELYARD_PROGRESS_FILE", tmp_path / "e", "not a setting")
    loaded = load_with(tmp_path, "accounts = 'sqlite:x'\n[api]\nhost = '0.0.0.0'\n")
    assert loaded.accounts == "postgresql://s:secret@db/p"
    assert loaded.api.administrator_token.get_secret_value() == "t" * 32
    assert (loaded.api.host, loaded.api.port) == ("0.0.0.0", 8000)
    credentials = loaded.orchestrator.storage_credentials
    assert {name: value.get_secret_value() for name, value in credentials.items()} == {"AWS_REGION": "x"}


def test_an_administrators_token_that_is_given_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_with(tmp_path).api.administrator_token.get_secret_value() == ""
    monkeypatch.setenv("STEELYARD_API__ADMINISTRATOR_TOKEN", "")
    with pytest.raises(UsageError, match=r"api\.administrator_token: is empty"):
        load_with(tmp_path)


def list_variables(
    model: type[BaseModel] = Settings, prefix: str = "STEELYARD_"
) -> Iterator[tuple[str, str]]:
    """Give the variable of every setting, with its default as text."""
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        variable, kind = f"{prefix}{name.upper()}", field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from list_variables(kind, f"{variable}__")
        else:
            default = to_jsonable_python(field.get_default(call_default_factory=True, validated_data={}))
            yield variable, default if isinstance(default, str) else json.dumps(default)


OPTIONAL = {
    "STEELYARD_API__ADMINISTRATOR_TOKEN": "t" * 32,
    "STEELYARD_API__DRAIN_SECONDS": "5",
    "STEELYARD_METRICS": ":9100",
    "STEELYARD_OPERATOR__METRICS": ":9101",
    "STEELYARD_OPERATOR__NAMESPACE": "a",
    "STEELYARD_ORCHESTRATOR__EGRESS": '[{"to": []}]',
    "STEELYARD_PODS__PRIORITY_CLASS": "batch",
    "STEELYARD_PODS__RUNTIME_CLASS": "nvidia",
    "STEELYARD_PODS__CPU_LIMIT": "2",
}
"""Values of settings whose default says nothing, or is refused where it is given."""


def test_a_file_means_what_its_text_in_the_variable_itself_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = dict(list_variables()) | OPTIONAL
    assert "null" not in variables.values()
    with monkeypatch.context() as patched:
        for variable, text in variables.items():
            patched.setenv(variable, text)
        expected = load_with(tmp_path)
    assert expected.orchestrator.egress == [{"to": []}]
    for variable, text in variables.items():
        name_file(monkeypatch, f"{variable}_FILE", tmp_path / variable, text)
    assert load_with(tmp_path) == expected


def test_a_folder_of_a_secret_has_a_file_for_each_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet shows a Secret by links, so that all its files change at once."""
    folder = tmp_path / "secret"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION"):
        (folder / "..2026" / name).write_text(f"value of {name}\n")
        (folder / name).symlink_to(f"..data/{name}")
    monkeypatch.setenv("STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS_FILE", str(folder))
    credentials = load_with(tmp_path).orchestrator.storage_credentials
    assert {name: value.get_secret_value() for name, value in credentials.items()} == {
        "AWS_ACCESS_KEY_ID": "value of AWS_ACCESS_KEY_ID",
        "AWS_REGION": "value of AWS_REGION",
    }


def test_a_file_that_cannot_be_used_is_named_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS_FILE"
    name_file(monkeypatch, variable, tmp_path / "file", "secret{")
    with pytest.raises(UsageError, match=f"{variable} .*file: cannot be read") as refused:
        load_with(tmp_path)
    assert "secret" not in str(refused.value)
    monkeypatch.setenv(variable, str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="absent: cannot be read: No such file or directory"):
        load_with(tmp_path)
    monkeypatch.setenv(variable, "")
    monkeypatch.setenv("STEELYARD_STORAGE", "s3://a/b")
    monkeypatch.setenv("STEELYARD_STORAGE_FILE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="STEELYARD_STORAGE is set, too"):
        load_with(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("steelyard-storage", '{"auths": {}}', "opens the storage"),
        ("Registry", '{"auths": {}}', "Registry"),
        ("registry", "x-secret", "JSON object with the key auths"),
        ("registry", '["x-secret"]', "JSON object with the key auths"),
        ("registry", '{"x-secret": {}}', "JSON object with the key auths"),
    ],
)
def test_a_secret_that_would_open_no_registry_is_refused_and_not_shown(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f"[orchestrator.pull_secrets]\n{name} = {json.dumps(content)}\n")
    with pytest.raises(UsageError, match=r"orchestrator\.pull_secrets\.") as raised:
        load(settings, tmp_path)
    assert words in str(raised.value)
    assert "x-secret" not in str(raised.value)
