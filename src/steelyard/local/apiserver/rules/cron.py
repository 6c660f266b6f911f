"""CronJobs."""

from steelyard.local.apiserver.errors import Cause, required
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.fields import not_negative, one_of
from steelyard.local.apiserver.rules.pods import complete_pod_spec
from steelyard.types import Json

_CONCURRENCY = ["Allow", "Forbid", "Replace"]


def _prepare(obj: Json) -> None:
    obj["status"] = {}


def _default(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
        jobTemplate={},
    )
    template = spec["jobTemplate"]
    template.setdefault("metadata", {})
    pods = template.setdefault("spec", {}).setdefault("template", {})
    pods.setdefault("metadata", {})
    complete_pod_spec(pods.setdefault("spec", {}))


def _check(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = [] if spec.get("schedule") else [required("spec.schedule")]
    causes += not_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    causes += one_of(spec["concurrencyPolicy"], "spec.concurrencyPolicy", _CONCURRENCY)
    return causes


CRON_JOB = Rules(_prepare, _default, _check)
