"""Every public method of the published client, listed by inspection, is called against a platform.

A method that is new in the package fails here until it has a case.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.platform_api.published import ACCOUNT, Laboratory, laboratory
from tests.platform_api.published_artifacts import ARTIFACTS
from tests.platform_api.published_challenges import CHALLENGES
from tests.platform_api.published_groups import GROUPS, SHARED, Case
from tests.platform_api.published_quotas import QUOTAS, quotas

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.client import Client
    from dyff.schema import platform, requests


def methods() -> list[str]:
    """Return all public methods of the client and its groups."""
    client = Client(api_token="a.b.c", endpoint="http://127.0.0.1:1/v0")
    names = [name for name, _ in inspect.getmembers(client, inspect.ismethod) if not name.startswith("_")]
    for group, value in inspect.getmembers(client):
        if not group.startswith("_") and type(value).__module__.endswith("_apigroups"):
            own = inspect.getmembers(value, inspect.ismethod)
            names += [f"{group}.{name}" for name, _ in own if not name.startswith("_")]
    client._http.close()
    return names


# ---- creations


def created(group: str, request: Callable[[Laboratory], Any], status: str) -> Case:
    def case(lab: Laboratory) -> None:
        entity = getattr(lab.api, group).create(request(lab))
        entity = getattr(entity, "inferencesession", entity)
        assert (entity.kind, entity.account, entity.status) == (GROUPS[group], ACCOUNT, status)

    return case


def parsed(kind: str, fields: Callable[[Laboratory], Any]) -> Callable[[Laboratory], Any]:
    """Return the request of these fields, as the package parses it."""
    model = getattr(requests, f"{kind}CreateRequest")
    return lambda lab: model.model_validate({"account": ACCOUNT, **fields(lab)})


def _fields(kind: str) -> Callable[[Laboratory], Any]:
    """Return the fields by which the platform itself creates an entity of the kind."""

    def fields(lab: Laboratory) -> Any:
        sent: dict[str, Any] = {}
        post = lab.post

        def note(path: str, **given: Any) -> Any:
            sent.clear()
            sent.update(given)
            return post(path, **given)

        lab.post = note  # type: ignore[method-assign]
        try:
            lab.make(kind)
        finally:
            del lab.post
        return sent

    return fields


CREATED = {
    "artifacts": ("Artifact", "WaitingForUpload"),
    "challenges": ("Challenge", "Ready"),
    "datasets": ("Dataset", "WaitingForUpload"),
    "evaluations": ("Evaluation", "Created"),
    "families": ("Family", "Ready"),
    "inferenceservices": ("InferenceService", "Created"),
    "inferencesessions": ("InferenceSession", "Created"),
    "measurements": ("Analysis", "Created"),
    "methods": ("Method", "Ready"),
    "models": ("Model", "Created"),
    "modules": ("Module", "WaitingForUpload"),
    "pipelines": ("Pipeline", "Ready"),
    "reports": ("Report", "Created"),
    "safetycases": ("Analysis", "Created"),
    "usecases": ("Concern", "Ready"),
}
"""The request's name and the first status, by group."""


# ---- what single groups have


def dataset_upload(lab: Laboratory) -> None:
    folder = lab.rows()
    made = lab.api.datasets.create_arrow_dataset(folder, account=ACCOUNT, name="rows")
    assert made.status == "WaitingForUpload"
    lab.api.datasets.upload_arrow_dataset(made, folder)
    assert lab.api.datasets.get(made.id).status == "Ready"
    lab.api.datasets.download(made.id, lab.folder / made.id)
    assert (lab.folder / made.id / "part.parquet").read_bytes() == (folder / "part.parquet").read_bytes()
    assert [link.artifact.path for link in lab.api.datasets.downlinks(made.id)] == ["part.parquet"]


def dataset_finalize(lab: Laboratory) -> None:
    made = lab.api.datasets.create_arrow_dataset(lab.rows(), account=ACCOUNT, name="rows")
    with pytest.raises(Exception, match=r"409|422"):  # the files are missing
        lab.api.datasets.finalize(made.id)


def module_upload(lab: Laboratory) -> None:
    folder = lab.folder / "package"
    folder.mkdir(exist_ok=True)
    (folder / "a.py").write_text("x = 1\n")
    made = lab.api.modules.create_package(folder, account=ACCOUNT, name="code")
    lab.api.modules.upload_package(made, folder)
    assert lab.api.modules.get(made.id).status == "Ready"
    lab.api.modules.finalize(made.id)  # once more: the answer of the first may have been lost
    lab.api.modules.download(made.id, lab.folder / made.id)
    assert (lab.folder / made.id / "a.py").read_text() == "x = 1\n"
    assert [link.artifact.path for link in lab.api.modules.downlinks(made.id)] == ["a.py"]


def model_upload(lab: Laboratory) -> None:
    folder = lab.folder / "weights"
    folder.mkdir(exist_ok=True)
    (folder / "w.bin").write_bytes(b"12")
    resources = platform.ModelResources(storage="1Gi")
    made = lab.api.models.create_from_volume(folder, account=ACCOUNT, name="w", resources=resources)
    assert lab.api.models.uplink(made.id, "w.bin").method == "PUT"
    lab.api.models.upload_volume(made, folder)
    assert lab.api.models.get(made.id).status == "Created"
    lab.api.models.finalize(made.id)


def family_members(lab: Laboratory) -> None:
    family, data = lab.make("Family"), lab.make("Dataset")
    entity = platform.EntityIdentifier(id=data, kind="Dataset")
    lab.api.families.edit_members(family, {"v1": platform.FamilyMemberBase(entity=entity)})
    member = lab.api.families.get_member(family, "v1")
    assert (member.id, member.kind) == (data, "Dataset")
    lab.api.families.edit_members(family, {"v1": None})
    assert lab.api.families.get(family).members == {}


def concerns(lab: Laboratory) -> None:
    method, use = lab.make("Method"), lab.api.usecases.get(lab.make("UseCase"))
    lab.api.methods.add_concern(method, use)
    assert lab.api.methods.get(method).labels == {f"usecases.dyff.io/{use.id}": "1"}
    lab.api.methods.remove_concern(method, use)
    assert lab.api.methods.get(method).labels == {}


def run(lab: Laboratory) -> None:
    pipeline = lab.make("Pipeline")
    request = requests.PipelineRunRequest(
        account=ACCOUNT, pipeline=pipeline, arguments={"data": lab.make("Dataset")}
    )
    made = lab.api.pipelines.run(pipeline, request)
    assert lab.api.pipelines.get_run(made.id).workflows == made.workflows
    status = lab.api.pipelines.get_run_status(made.id)
    assert (status.status, status.nodes["ask"].status) == ("Created", "Created")
    workflow = lab.api.pipelines.get_run_workflows(made.id)["ask"]
    assert (workflow.id, workflow.kind) == (made.workflows["ask"].id, "Evaluation")
    assert [entity.id for entity in lab.api.pipelines.query_runs(pipeline=pipeline)] == [made.id]


def nothing_to_finalize(lab: Laboratory) -> None:
    """The groups inherit the method, but nothing is uploaded to their kinds: the original has no such route."""
    for group in ("evaluations", "measurements", "reports", "safetycases"):
        id = lab.make(GROUPS[group])
        with pytest.raises(httpx.HTTPStatusError) as error:
            getattr(lab.api, group).finalize(id)
        assert error.value.response.status_code == 404
        assert error.value.response.json()["detail"] == f"there is no /v0/{group}/{id}/finalize"
        assert getattr(lab.api, group).get(id).status == "Created"


def scores(lab: Laboratory) -> None:
    id = lab.scored()
    method = lab.api.safetycases.get(id).method.id
    for listed in (lab.api.safetycases.scores(id), lab.api.safetycases.query_scores(id=id, method=method)):
        assert [(score.name, score.quantity) for score in listed] == [("good", 0.5)]
    for curves in (lab.api.safetycases.curves(id), lab.api.safetycases.query_curves(id=id, method=method)):
        assert [(curve.name, curve.points) for curve in curves] == [("slope", {"x": [0.0, 1.0]})]


def session(lab: Laboratory) -> None:
    id = lab.make("InferenceSession")
    assert lab.api.inferencesessions.ready(id) is False
    token = lab.api.inferencesessions.token(id)
    assert lab.api.inferencesessions.token(id, expires=lab.later()).count(".") == 2
    assert lab.api.inferencesessions.client(id, token, endpoint="v1") is not None
    assert lab.api.inferencesessions.terminate(id).status == "Terminated"


def account(lab: Laboratory) -> None:
    accounts, name = lab.api.accounts, f"a-{lab.make('UseCase')[:8]}"
    made = accounts.create(requests.AccountCreateRequest(name=name))
    assert accounts.get(made.id).name == name
    accounts.label(made.id, {"team": "blue", "gone": None})
    # The package's own Account does not show them.
    answer = httpx.get(f"{lab.platform.url}/accounts/{made.id}", headers=lab.platform.headers, timeout=60)
    assert answer.json()["labels"] == {"team": "blue"}
    grant = platform.AccessGrant(resources=["models"], functions=["get"], accounts=[name])
    accounts.set_permissions(made.id, requests.AccountPermissionsSetRequest(permissions=[grant]))
    assert accounts.get_permissions(made.id) == [grant]
    request = requests.AccountTokenCreateRequest(grants=[grant], expires=lab.later())
    _, claims = lab.api.tokens.inspect(accounts.create_token(made.id, request))
    assert accounts.get_token(made.id, claims["jti"]).grants == [grant]
    assert [key.id for key in accounts.list_tokens(made.id)] == [claims["jti"]]
    accounts.revoke_token(made.id, claims["jti"])
    accounts.revoke_all_tokens(made.id)
    assert accounts.list_tokens(made.id) == []
    assert accounts.delete(made.id).status == "Deleted"


def of_any_kind(lab: Laboratory) -> None:
    assert lab.api.apigroup("Dataset") is lab.api.datasets
    id = lab.make("Dataset")
    assert lab.api.get(platform.EntityIdentifier(id=id, kind="Dataset")).id == id


def volume(lab: Laboratory) -> None:
    assert [Path(path).name for path in lab.api.volumes.list(lab.rows())] == ["part.parquet"]


TOGETHER: dict[Case, tuple[str, ...]] = {
    dataset_upload: (
        *("datasets.create_arrow_dataset", "datasets.upload_arrow_dataset"),
        *("datasets.download", "datasets.downlinks"),
    ),
    dataset_finalize: ("datasets.finalize",),
    nothing_to_finalize: tuple(
        f"{group}.finalize" for group in ("evaluations", "measurements", "reports", "safetycases")
    ),
    module_upload: tuple(
        f"modules.{name}"
        for name in ("create_package", "upload_package", "finalize", "download", "downlinks")
    ),
    model_upload: tuple(
        f"models.{name}" for name in ("create_from_volume", "upload_volume", "uplink", "finalize")
    ),
    family_members: ("families.edit_members", "families.get_member"),
    concerns: ("methods.add_concern", "methods.remove_concern"),
    run: tuple(
        f"pipelines.{name}"
        for name in ("run", "get_run", "get_run_status", "get_run_workflows", "query_runs")
    ),
    scores: tuple(f"safetycases.{name}" for name in ("scores", "query_scores", "curves", "query_curves")),
    session: tuple(f"inferencesessions.{name}" for name in ("ready", "token", "client", "terminate")),
    account: (
        *("accounts.create", "accounts.get", "accounts.set_permissions", "accounts.get_permissions"),
        *("accounts.create_token", "accounts.get_token", "accounts.list_tokens", "accounts.revoke_token"),
        *("accounts.revoke_all_tokens", "accounts.delete", "accounts.label", "tokens.inspect"),
    ),
    of_any_kind: ("apigroup", "get"),
    volume: ("volumes.list",),
    **ARTIFACTS,
    **CHALLENGES,
    quotas: QUOTAS,
}
"""Cases about several methods, which need each other."""


def cases() -> dict[str, Case]:
    """Return a case for each method that has one."""
    known = {method: case for case, names in TOGETHER.items() for method in names}
    known |= {
        f"{group}.create": created(group, parsed(name, _fields(GROUPS[group])), status)
        for group, (name, status) in CREATED.items()
    }
    for method in methods():
        group, _, name = method.partition(".")
        if method not in known and group in GROUPS and name in SHARED:
            known[method] = SHARED[name](group)
    return known


CASES = cases()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("published")) as made:
        yield made


def test_every_method_has_a_case() -> None:
    listed = methods()
    assert [method for method in listed if method not in CASES] == []
    assert [method for method in CASES if method not in listed] == []


# One run of a case that several methods share is enough.
NAMES = {
    case: next(method for method in CASES if CASES[method] is case) for case in dict.fromkeys(CASES.values())
}


@pytest.mark.parametrize("case", NAMES, ids=NAMES.values())
def test_a_method_does_what_it_does_on_the_original(lab: Laboratory, case: Case) -> None:
    case(lab)


def test_what_is_absent_says_so(lab: Laboratory) -> None:
    answer = httpx.get(f"{lab.platform.url}/histories", headers=lab.platform.headers, timeout=60)
    assert answer.status_code == 501
