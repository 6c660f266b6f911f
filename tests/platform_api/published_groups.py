"""Cases of the methods that all groups of the published client have."""

import warnings
from collections.abc import Callable
from typing import Any

from tests.platform_api.published import ACCOUNT, Laboratory

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.schema import commands, requests

Case = Callable[[Laboratory], Any]

GROUPS = {
    "artifacts": "OCIArtifact",
    "challenges": "Challenge",
    "datasets": "Dataset",
    "evaluations": "Evaluation",
    "families": "Family",
    "inferenceservices": "InferenceService",
    "inferencesessions": "InferenceSession",
    "measurements": "Measurement",
    "methods": "Method",
    "models": "Model",
    "modules": "Module",
    "pipelines": "Pipeline",
    "reports": "Report",
    "safetycases": "SafetyCase",
    "teams": "Team",
    "usecases": "UseCase",
}
"""Groups of methods about kinds that the platform has."""


def get(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        entity = getattr(lab.api, group).get(id)
        assert (entity.id, entity.kind, entity.account) == (id, GROUPS[group], ACCOUNT)

    return case


def query(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        assert [entity.id for entity in getattr(lab.api, group).query(id=id, account=ACCOUNT)] == [id]
        assert getattr(lab.api, group).query(id=id, account="nobody") == []

    return case


def delete(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        assert getattr(lab.api, group).delete(id).status == "Deleted"
        assert getattr(lab.api, group).get(id).status == "Deleted"

    return case


def label(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        getattr(lab.api, group).label(id, {"team": "blue", "gone": None})
        assert getattr(lab.api, group).get(id).labels == {"team": "blue"}

    return case


def publish(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        for access, text in (("public", "public"), ("preview", "internal"), ("private", None)):
            getattr(lab.api, group).publish(id, access)
            assert getattr(lab.api, group).get(id).labels.get("dyff.io/access") == text

    return case


def documentation(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        assert getattr(lab.api, group).documentation(lab.make(GROUPS[group])).title is None

    return case


def edit_documentation(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        patch = commands.EditEntityDocumentationPatch(title="T", summary=None)
        edit = requests.DocumentationEditRequest(documentation=patch)
        getattr(lab.api, group).edit_documentation(id, edit)
        assert getattr(lab.api, group).get(id).metadata.documentation.title == "T"

    return case


def downlinks(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        (link,) = getattr(lab.api, group).downlinks(lab.finished(GROUPS[group]))
        assert (link.artifact.path, link.signedURL.method) == ("out.txt", "GET")

    return case


def download(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.finished(GROUPS[group])
        getattr(lab.api, group).download(id, lab.folder / id)
        assert (lab.folder / id / "out.txt").read_bytes() == b"content"

    return case


def logs(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        assert list(getattr(lab.api, group).logs(lab.finished(GROUPS[group]))) == ["one", "two"]

    return case


def download_logs(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.finished(GROUPS[group])
        getattr(lab.api, group).download_logs(id, lab.folder / f"{id}.txt")
        assert (lab.folder / f"{id}.txt").read_bytes() == b"one\ntwo\n"

    return case


def workflow_logs(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.make(GROUPS[group])
        answer = getattr(lab.api, group).workflow_logs(id, since="1h", limit=10)
        assert (answer.workflow.id, answer.logs) == (id, [])

    return case


def stream_workflow_logs(group: str) -> Case:
    def case(lab: Laboratory) -> None:
        id = lab.finished(GROUPS[group], files=False) if group != "inferencesessions" else _terminated(lab)

        async def read() -> list[Any]:
            return [entry async for entry in getattr(lab.api, group).stream_workflow_logs(id)]

        assert lab.wait(read()) == []

    return case


def _terminated(lab: Laboratory) -> str:
    id = lab.make("InferenceSession")
    lab.api.inferencesessions.terminate(id)
    return id


SHARED = {
    make.__name__: make
    for make in (
        *(get, query, delete, label, publish, documentation, edit_documentation, downlinks, download, logs),
        *(download_logs, workflow_logs, stream_workflow_logs),
    )
}
