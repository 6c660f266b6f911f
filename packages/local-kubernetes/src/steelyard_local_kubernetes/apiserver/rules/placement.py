"""Fields of a Pod that say where it may run: affinity, spread, tolerations, gates."""

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.names import key_causes, value_causes
from steelyard_local_kubernetes.apiserver.rules.common import selector_causes
from steelyard_local_kubernetes.apiserver.rules.fields import duplicate
from steelyard_local_kubernetes.apiserver.rules.table import (
    Rule,
    choice,
    if_given_choice,
    items,
    need,
    part,
    values,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _requirement_causes(requirement: Json, path: str) -> list[Cause]:
    operator, given_values = requirement.get("operator") or "", sequence(requirement, "values")
    causes: list[Cause] = []
    match operator:
        case "In" | "NotIn" if not given_values:
            causes.append(
                missing_value(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
        case "Exists" | "DoesNotExist" if given_values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(f"{path}.values", text))
        case "Gt" | "Lt" if len(given_values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(missing_value(f"{path}.values", text))
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return causes + key_causes(requirement.get("key") or "", f"{path}.key")


def _field_causes(requirement: Json, path: str) -> list[Cause]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    causes = []
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(sequence(requirement, "values")) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(missing_value(f"{path}.values", text))
    if key != "metadata.name":
        causes.append(invalid(f"{path}.key", key, "not a valid field selector key"))
    return causes


def _weight(term: Json, path: str) -> list[Cause]:
    weight = term.get("weight") or 0
    return [] if 0 < weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _topology(term: Json, path: str) -> list[Cause]:
    return key_causes(term.get("topologyKey") or "", f"{path}.topologyKey")


def _selector(term: Json, path: str) -> list[Cause]:
    selector = term.get("labelSelector")
    return [] if selector is None else selector_causes(selector, f"{path}.labelSelector", empty=True)


_NODE_TERM = (
    items("matchExpressions", _requirement_causes, values("values", value_causes)),
    items("matchFields", _field_causes),
)
_PREFERENCE = (items("matchExpressions", _requirement_causes), items("matchFields", _field_causes))
_POD_TERM = (_selector, need("topologyKey", detail="can not be empty"), _topology)
_POD_TERMS = (
    items(_REQUIRED, *_POD_TERM),
    items(_PREFERRED, _weight, part("podAffinityTerm", *_POD_TERM)),
)
AFFINITY = part(
    "affinity",
    part(
        "nodeAffinity",
        part(
            _REQUIRED,
            need("nodeSelectorTerms", detail="must have at least one node selector term"),
            items("nodeSelectorTerms", *_NODE_TERM),
        ),
        items(_PREFERRED, _weight, part("preference", *_PREFERENCE)),
    ),
    part("podAffinity", *_POD_TERMS),
    part("podAntiAffinity", *_POD_TERMS),
)


def _skew(constraint: Json, path: str) -> list[Cause]:
    skew = constraint.get("maxSkew") or 0
    return [] if skew > 0 else [invalid(f"{path}.maxSkew", skew, "must be greater than zero")]


def _unsatisfiable(constraint: Json, path: str) -> list[Cause]:
    action, actions = constraint.get("whenUnsatisfiable") or "", ["DoNotSchedule", "ScheduleAnyway"]
    return [] if action in actions else [not_supported(f"{path}.whenUnsatisfiable", action, actions)]


def _domains(constraint: Json, path: str) -> list[Cause]:
    least = constraint.get("minDomains")
    if least is None:
        return []
    causes = [] if least > 0 else [invalid(f"{path}.minDomains", least, "must be greater than 0")]
    if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
        text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
        causes.append(invalid(f"{path}.minDomains", least, text + str(constraint.get("whenUnsatisfiable"))))
    return causes


SPREAD = items(
    "topologySpreadConstraints",
    _skew,
    need("topologyKey", detail="can not be empty"),
    _unsatisfiable,
    _domains,
    choice("nodeAffinityPolicy", "Honor", "Ignore"),
    choice("nodeTaintsPolicy", "Honor", "Ignore"),
    _selector,
)


def _toleration_causes(toleration: Json, path: str) -> list[Cause]:
    key, operator, effect, value = (
        toleration.get(name) or "" for name in ("key", "operator", "effect", "value")
    )
    causes = key_causes(key, f"{path}.key") if key else []
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid(f"{path}.operator", operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", effect, text))
    if operator in ("Equal", ""):
        causes += value_causes(value, f"{path}.operator")
    elif operator == "Exists" and value:
        causes.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    return causes


TOLERATIONS = items(
    "tolerations",
    _toleration_causes,
    if_given_choice("operator", "Equal", "Exists"),
    if_given_choice("effect", "NoSchedule", "PreferNoSchedule", "NoExecute"),
)


def _gate_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, gate in enumerate(sequence(spec, "schedulingGates")):
        where, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        causes += key_causes(name, where)
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    return causes


GATES: Rule = _gate_causes
