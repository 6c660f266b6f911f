"""CronJobs."""

import re
from zoneinfo import ZoneInfo

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import choice_causes, not_negative
from steelyard_local_kubernetes.apiserver.rules.job_policies import default_policies
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import job_warnings, name_warnings
from steelyard_local_kubernetes.apiserver.rules.pods import complete_pod_spec
from steelyard_local_kubernetes.apiserver.rules.workloads import job_template_causes, trim_labels
from steelyard_local_kubernetes.cron_schedule import parse_schedule

_CONCURRENCY = ["Allow", "Forbid", "Replace"]
_LONGEST_NAME = 52
_PART = re.compile(r"(?!-)[A-Za-z.\-_0-9+]{1,14}")
"""One part of the name of a time zone."""


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
    causes = _schedule_causes(spec) + not_negative(spec, "spec", "startingDeadlineSeconds")
    if old is None or old["spec"].get("timeZone") != spec.get("timeZone"):
        causes += _zone_causes(spec)
    causes += choice_causes(spec["concurrencyPolicy"], "spec.concurrencyPolicy", _CONCURRENCY)
    causes += job_template_causes(spec["jobTemplate"], "spec.jobTemplate")
    causes += not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    # Its Jobs add the time to the name, a dash and ten digits, and a Job's name has 63 characters at most.
    if old is None and len((name := obj["metadata"].get("name") or "").encode()) > _LONGEST_NAME:
        causes.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    return causes


def _schedule_causes(spec: Json) -> list[Cause]:
    text, path = spec.get("schedule") or "", "spec.schedule"
    if not text:
        return [missing_value(path)]
    causes = []
    try:
        parse_schedule(_without_zone(text))
    except ValueError as error:
        causes.append(invalid(path, text, str(error)))
    if "TZ" in text:
        causes.append(invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    return causes


def _without_zone(schedule: str) -> str:
    """Return the schedule without the zone that it begins with, if it does; ValueError where there is no such zone."""
    if not schedule.startswith(("TZ=", "CRON_TZ=")) or " " not in schedule:
        return schedule
    first, _, rest = schedule.partition(" ")
    name = first.partition("=")[2]
    if not _is_zone(name):
        raise ValueError(f"provided bad location {name}: unknown time zone {name}")
    return rest.strip()


def _zone_causes(spec: Json) -> list[Cause]:
    name, path = spec.get("timeZone"), "spec.timeZone"
    if name is None:
        return []
    if not name:
        return [invalid(path, name, "timeZone must be nil or non-empty string")]
    unknown = [invalid(path, name, f"unknown time zone {name}")]
    if not all(_PART.fullmatch(part) and part not in (".", "..") for part in name.split("/")):
        return unknown
    causes = []
    if name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        causes.append(invalid(path, name, text))
    return causes if name == "Local" or _is_zone(name) else causes + unknown


def _is_zone(name: str) -> bool:
    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


def _trim(obj: Json) -> None:
    trim_labels(obj["spec"]["jobTemplate"]["spec"]["template"])


def _warn(obj: Json, old: Json | None) -> list[str]:
    changed = old is None or obj["spec"] != old["spec"]
    warnings = name_warnings(obj) if old is None else []
    path = "spec.jobTemplate.spec"
    return warnings + (job_warnings(obj["spec"]["jobTemplate"]["spec"], path) if changed else [])


CRON_JOB = Rules(_prepare, _default, _check, _trim, warn=_warn)
