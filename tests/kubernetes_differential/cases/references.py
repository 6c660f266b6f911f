"""Texts that name something: the controllers of Jobs, and fields of a Pod that its containers and volumes read."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, post
from tests.kubernetes_differential.samples import DRY, PODS, container, cron_job, job, pod, template

BATCH = "/apis/batch/v1/namespaces/{{ns}}"
SAID = ("kind", "message", "reason", "details", "code")
MANAGERS = (
    "a.b/c", "x", "", "/", "a/", "/b", "a/b", "a b/c", "A.b/c", "a_b/c", "a.b/c d", "a.b/c/d", "a.b//", "a.b/%41?",
    "a.b/ü", "a..b/c", "-a/b c", "a.b/" + "c" * 59, "a.b/" + "c" * 60, "a" * 254 + "/b", "x" * 300, "A" * 64,
    "kubernetes.io/job-controller",
)  # fmt: skip
FIELDS: list[Json] = [
    {"fieldPath": "metadata.name"},
    *(
        {"apiVersion": version, "fieldPath": "metadata.name"}
        for version in ("", "v1", "v2", "apps/v1", "V1", "x" * 300)
    ),
    {"apiVersion": "v2"},
    {"apiVersion": "v2", "fieldPath": "foo"},
    {"apiVersion": "v2", "fieldPath": "metadata.labels['a b']"},
    *(
        {"fieldPath": path}
        for path in (
            "", "foo", "metadata.labels", "metadata.annotations", "metadata.labels['a']", "metadata.labels['a b']",
            "metadata.labels['']", "metadata.labels['", "metadata.annotations['A B']", "metadata.name['a']", "foo['a']",
            "['a']", "spec.host", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase",
            "status.podIPs", "status.hostIP", "status.hostIPs", "metadata.labels['a']['b']", "metadata.uid",
            "spec.serviceAccountName",
        )
    ),
]  # fmt: skip


def files(*items: Json) -> list[Json]:
    """The items in a volume of their own, and in one that has other sources beside it."""
    return [
        {"downwardAPI": {"items": list(items)}},
        {"projected": {"sources": [{"downwardAPI": {"items": list(items)}}]}},
    ]


CASES = [
    Case(
        "jobs: controllers",
        *(post(f"{BATCH}/jobs?{DRY}", job("j", managedBy=name), compare=SAID) for name in MANAGERS),
    ),
    Case(
        "jobs: controllers of templates",
        *(
            post(
                f"{BATCH}/cronjobs?{DRY}",
                cron_job(
                    jobTemplate={"spec": {"managedBy": name, "template": template(restartPolicy="Never")}}
                ),
                compare=SAID,
            )
            for name in ("a.b/c", "a b/c d", "")
        ),
    ),
    Case(
        "pods: fields in variables",
        *(
            post(
                f"{PODS}?{DRY}",
                container(env=[{"name": "A", "valueFrom": {"fieldRef": field}}]),
                compare=(*SAID, "spec.containers.0.env"),
            )
            for field in FIELDS
        ),
    ),
    Case(
        "pods: fields in volumes",
        *(
            post(
                f"{PODS}?{DRY}",
                pod("p", volumes=[{"name": "v", **volume}]),
                compare=(*SAID, "spec.volumes.0"),
            )
            for field in FIELDS
            for volume in files({"path": "f", "fieldRef": field})
        ),
    ),
]
