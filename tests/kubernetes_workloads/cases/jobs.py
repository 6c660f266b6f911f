"""Jobs that run: completions, indexes, limits, policies, suspension."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_workloads.cases.pods import WAITS
from tests.kubernetes_workloads.cluster import SECONDS, Cluster, condition, container, template

TIMES = ("startTime", "completionTime", "terminating")


def job(script: str, **spec: Any) -> Json:
    return {"metadata": {"name": "job"}, "spec": {"template": template(container(script)), **spec}}


def ended(item: Json) -> bool:
    return any(condition(item, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def job_shape(item: Json) -> Json:
    status = {name: value for name, value in item["status"].items() if name not in (*TIMES, "conditions")}
    rows = item["status"].get("conditions", [])
    # The object of a failure policy is a Pod, whose name is drawn.
    words = {
        row["type"]: [row["status"], row.get("reason"), (row.get("message") or "").split(" for pod ")[0]]
        for row in rows
    }
    return {**status, "conditions": words}


async def finished(cluster: Cluster, body: Json) -> Json:
    await cluster.create("jobs", body)
    return job_shape(await cluster.until("jobs", "job", ended))


async def completions(cluster: Cluster) -> Json:
    return await finished(cluster, job("true", completions=3, parallelism=2))


async def indexed(cluster: Cluster) -> Json:
    body = job(
        "echo $JOB_COMPLETION_INDEX $(uname -n)", completions=3, parallelism=3, completionMode="Indexed"
    )
    seen = await finished(cluster, body)
    pods = await cluster.items("pods", "job-name=job")
    lines = [line for item in pods for line in await cluster.log(item["metadata"]["name"])]
    labels = sorted(item["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for item in pods)
    return {"job": seen, "lines": sorted(lines), "labels": labels}


async def backoff_limit(cluster: Cluster) -> Json:
    return await finished(cluster, job("exit 1", backoffLimit=1))


async def backoff_limit_zero(cluster: Cluster) -> Json:
    return await finished(cluster, job("exit 1", backoffLimit=0))


async def failed_in_place(cluster: Cluster) -> Json:
    body = job("exit 1", backoffLimit=1)
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    return await finished(cluster, body)


def rule(action: str, *codes: int) -> Json:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}


async def fails_the_job(cluster: Cluster) -> Json:
    body = job("exit 42", backoffLimit=5, podFailurePolicy={"rules": [rule("FailJob", 42)]})
    seen = await finished(cluster, body)
    row = seen["conditions"]
    for kind, (status, reason, message) in row.items():
        row[kind] = [status, reason, message.replace(cluster.namespace, "NAMESPACE")]
    return seen


async def failure_does_not_count(cluster: Cluster) -> Json:
    policy = {"rules": [rule("Ignore", 43)]}
    await cluster.create("jobs", job("exit 43", backoffLimit=0, podFailurePolicy=policy))

    async def has_replaced_it() -> bool:
        return len(await cluster.items("pods", "job-name=job")) > 1

    # Not the Job's `active`: it may be 1 for less time than passes between two looks.
    await cluster.api.eventually(has_replaced_it, "the Job has another Pod", SECONDS)
    item = await cluster.get("jobs", "job")
    return {"failed": item["status"].get("failed"), "conditions": item["status"].get("conditions")}


async def fails_an_index(cluster: Cluster) -> Json:
    script = "test $JOB_COMPLETION_INDEX != 1"
    body = job(script, completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0)
    return await finished(cluster, body)


async def too_many_failed_indexes(cluster: Cluster) -> Json:
    spec = {"completions": 4, "parallelism": 1, "completionMode": "Indexed"}
    return await finished(cluster, job("exit 1", backoffLimitPerIndex=0, maxFailedIndexes=1, **spec))


async def success_policy(cluster: Cluster) -> Json:
    script = f"test $JOB_COMPLETION_INDEX = 0 && exit 0; {WAITS}"
    policy = {"rules": [{"succeededIndexes": "0"}]}
    body = job(script, completions=2, parallelism=2, completionMode="Indexed", successPolicy=policy)
    return await finished(cluster, body)


async def suspended(cluster: Cluster) -> Json:
    await cluster.create("jobs", job("true", suspend=True))
    before = await cluster.until("jobs", "job", lambda item: condition(item, "Suspended"))
    none = await cluster.items("pods", "job-name=job")
    await cluster.merge("jobs", "job", {"spec": {"suspend": False}})
    after = await cluster.until("jobs", "job", ended)
    return {"before": job_shape(before), "pods": len(none), "after": job_shape(after)}


async def suspended_while_it_runs(cluster: Cluster) -> Json:
    await cluster.create("jobs", job(WAITS))
    await cluster.until("jobs", "job", lambda item: item["status"].get("ready") == 1)
    await cluster.merge("jobs", "job", {"spec": {"suspend": True}})
    seen = await cluster.until(
        "jobs", "job", lambda item: condition(item, "Suspended") and not item["status"].get("active")
    )
    return job_shape(seen)


async def deadline(cluster: Cluster) -> Json:
    return await finished(cluster, job(WAITS, activeDeadlineSeconds=2))


async def removed_when_it_ends(cluster: Cluster) -> Json:
    await cluster.create("jobs", job("true", ttlSecondsAfterFinished=0))
    await cluster.gone("jobs", "job")
    return {}
