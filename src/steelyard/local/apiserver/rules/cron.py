"""CronJobs."""

from zoneinfo import ZoneInfo

from steelyard.local.apiserver.errors import Cause, invalid, required
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.fields import not_negative, one_of
from steelyard.local.apiserver.rules.job_policies import default_policies
from steelyard.local.apiserver.rules.pods import complete_pod_spec
from steelyard.local.apiserver.rules.workloads import job_template_causes, trim_labels
from steelyard.local.cron_schedule import parse_schedule
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
    default_policies(template["spec"])


def _check(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = _schedule_causes(spec, old) + not_negative(spec, "spec", "startingDeadlineSeconds")
    causes += _zone_causes(spec)
    causes += one_of(spec["concurrencyPolicy"], "spec.concurrencyPolicy", _CONCURRENCY)
    causes += job_template_causes(spec["jobTemplate"], "spec.jobTemplate")
    return causes + not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _schedule_causes(spec: Json, old: Json | None) -> list[Cause]:
    text, path = spec.get("schedule") or "", "spec.schedule"
    if not text:
        return [required(path)]
    if "TZ" in text:
        return [invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")]
    try:
        parse_schedule(text)
    except ValueError as error:
        return [invalid(path, text, str(error))]
    return []


def _zone_causes(spec: Json) -> list[Cause]:
    name, path = spec.get("timeZone"), "spec.timeZone"
    if name is None:
        return []
    if not name:
        return [invalid(path, name, "timeZone must be nil or non-empty string")]
    if name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        unknown = [invalid(path, name, f"unknown time zone {name}")]
        return [invalid(path, name, text), *(unknown if name != "Local" else [])]
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return [invalid(path, name, f"unknown time zone {name}")]
    return []


def _trim(obj: Json) -> None:
    trim_labels(obj["spec"]["jobTemplate"]["spec"]["template"])


CRON_JOB = Rules(_prepare, _default, _check, _trim)
