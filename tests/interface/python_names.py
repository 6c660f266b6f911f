"""Lists what users import: names with their signatures, fields and base classes, one a line.

Types stand without their modules, so that a private module may move. `PUBLIC` is the whole list of modules: reviewers
read it, and a test holds README, docs and examples to it.
"""

import dataclasses
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, Protocol, cast

from pydantic import BaseModel

from steelyard import clusters
from steelyard.client import AsyncClient, Client

EXPORTED = ()
"""Stands for the names of the module's `__all__`."""
PUBLIC: Mapping[str, tuple[str, ...]] = {
    "steelyard": EXPORTED,
    "steelyard_evaluation.analysis": EXPORTED,
    "steelyard.broker.log": ("Log",),
    "steelyard.broker.open": ("open_log",),
    "steelyard.cli.demo.digits": ("make",),
    "steelyard.client": EXPORTED,
    "steelyard.client.fake": ("FakePlatform", "lost"),
    "steelyard.client.presets": ("classification", "hosted", "mock", "onnx_classifier"),
    "steelyard.clusters": EXPORTED,
    "steelyard.clusters.admin": ("ClusterQueueView", "CohortView", "Usage"),
    "steelyard.clusters.appwrappers": ("AppWrapperStatus",),
    "steelyard.clusters.queues": ("QueuePosition", "QueueView", "WorkloadView"),
    "steelyard.clusters.ray.certificate": ("ClientCertificate",),
    "steelyard.clusters.ray.job_status": ("JobStatus",),
    "steelyard.clusters.ray.plan": ("Change", "Plan"),
    "steelyard.clusters.ray.status": ("ClusterStatus", "Problem"),
    "steelyard.clusters.ray.submissions": ("AsyncSubmissions", "Submission", "Submissions"),
    "steelyard.clusters.ray.view": ("RayCluster",),
    "steelyard.clusters.training": EXPORTED,
    "steelyard.clusters.widgets": ("Panel", "job_logs", "job_panel", "panel", "queue_panel"),
    "steelyard_kube.client": ("connect",),
    "steelyard_local_kubernetes.background": ("RunningKubernetes", "running_kubernetes"),
    "steelyard_local_kubernetes.config": ("KubernetesConfig",),
    "steelyard_local_kubernetes.pytest_plugin": ("kubernetes",),
    "steelyard_local_kubernetes.run": ("run",),
    "steelyard.progress": ("report", "result"),
    "steelyard_evaluation.report.results": (
        *("Answer", "Bounds", "Cell", "Counts", "Figure", "Json", "Metric"),
        *("Results", "Rubric", "ScoresTogether", "Table", "Unit"),
    ),
    "steelyard_evaluation.report.rubrics": EXPORTED,
    "steelyard_evaluation.report.rubrics.contract": ("BrokenContract", "check_rubric"),
    "steelyard_evaluation.report.rubrics.rows": ("FIELD", "answer_text", "right_or_wrong", "schema"),
    "steelyard_evaluation.report.statistics": ("Estimate",),
    "steelyard_evaluation.report.summary": ("ScoreKind", "What", "summarise_scores"),
    "steelyard_schema.account": ("APIKey", "AccessGrant", "Account", "Identity"),
    "steelyard_schema.answers": (
        *("InferenceSessionAndToken", "QuarantinedEntity", "Status"),
        *("WorkflowLogsResponse", "WorkflowProgress"),
    ),
    "steelyard_schema.audit": ("Audit", "AuditProcedure", "AuditRequirement"),
    "steelyard_schema.base": ("DocumentationBase",),
    "steelyard_schema.data": ("Artifact", "DataSchema", "DataView", "SchemaAdapter"),
    "steelyard_schema.dataset": ("Dataset",),
    "steelyard_schema.evaluation": ("Evaluation", "EvaluationClientConfiguration"),
    "steelyard_schema.inference_service": (
        *("InferenceInterface", "InferenceService", "InferenceServiceBuilder", "InferenceServiceRunner"),
    ),
    "steelyard_schema.inference_session": ("InferenceSession",),
    "steelyard_schema.model": ("Model",),
    "steelyard_schema.module": ("Module",),
    "steelyard_schema.report": ("Report",),
    "steelyard_schema.requests": (
        *("AccountCreateRequest", "AccountPermissionsSetRequest", "AccountTokenCreateRequest"),
        *("AuditCreateRequest", "AuditProcedureCreateRequest", "DatasetCreateRequest"),
        *("DocumentationEditRequest", "EvaluationCreateRequest", "EvaluationInferenceSessionRequest"),
        *("InferenceServiceCreateRequest", "InferenceSessionCreateRequest"),
        *("InferenceSessionTokenCreateRequest", "LabelsEditRequest", "ModelCreateRequest"),
        *("ModuleCreateRequest", "ReportCreateRequest"),
    ),
    "steelyard_evaluation.storage.store": ("Store", "open_store"),
    "steelyard.testing.cluster": EXPORTED,
    "steelyard.testing.engines.accounts": ("CASES",),
    "steelyard.testing.engines.claims": ("CASES",),
    "steelyard.testing.engines.webhooks": ("CASES",),
    "steelyard.testing.engines.log": ("CASES",),
    "steelyard.testing.engines.log_groups": ("CASES",),
    "steelyard.testing.engines.outbox": ("CASES",),
    "steelyard.testing.engines.secrets": ("CASES",),
    "steelyard.testing.engines.store": ("CASES",),
    "steelyard.testing.engines.view": ("CASES",),
    "steelyard.testing.engines.view_sink": ("CASES",),
    "steelyard.testing.frameworks": ("CASES", "job_of", "read_job"),
    "steelyard.testing.platform": ("FakePlatform", "lost", "refused", "unreachable"),
    "steelyard.views.view": ("View",),
}
"""The public names of each module. Where code moves, its public names stay importable from the modules named here."""
CLIENTS = (Client, AsyncClient)
CLUSTER_CLIENTS = (clusters.Client, clusters.AsyncClient)
PLAIN_BASES = (object, BaseException, Exception, Protocol, Generic)
PLAIN_VALUES = (bool, int, float, str, tuple)
ENTRY_POINTS = ("console_scripts", "steelyard.rubrics")


def names(module: str) -> tuple[str, ...]:
    """The public names of a module."""
    return PUBLIC[module] or tuple(importlib.import_module(module).__all__)


def lines() -> list[str]:
    """The listing, sorted."""
    listed = [line for module in PUBLIC for line in _module(module)]
    return sorted(listed) + [line for group in ENTRY_POINTS for line in _entry_points(group)]


def _module(module: str) -> Iterator[str]:
    for name in names(module):
        value = getattr(importlib.import_module(module), name)
        path = f"{module}.{name}"
        if module == "steelyard" and value in CLIENTS:
            yield f"{path}: steelyard.client.{name}"
        elif not inspect.isclass(value):
            yield _function(path, value) if inspect.isroutine(value) else f"{path} = {_value(value)}"
        elif issubclass(value, BaseModel):
            yield f"{path}: {', '.join(sorted(value.model_fields))}"
        else:
            yield from _class(path, value)


def _class(path: str, kind: type) -> Iterator[str]:
    bases = [base.__name__ for base in kind.__mro__[1:] if base not in PLAIN_BASES]
    yield f"{path}: {', '.join(['class', *bases])}"
    initialised = any("__init__" in vars(base) for base in kind.__mro__ if _ours(base))
    if initialised and not getattr(kind, "_is_protocol", False):
        yield _function(path, kind)
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    yield from (f"{path}{member}" for member in _members(kind, fields))
    if kind in CLIENTS:
        yield from _collections(path, kind("http://127.0.0.1/v0", "token"))
    if kind in CLUSTER_CLIENTS:
        yield from _groups(path, kind(api=cast(Any, object())))


def _collections(path: str, client: object) -> Iterator[str]:
    """The methods of a client's collections: of equal ones one line, with the collections that have it."""
    having: dict[str, list[str]] = defaultdict(list)
    for name, collection in vars(client).items():
        if not name.startswith("_") and _ours(type(collection)):
            for member in _members(type(collection), set()):
                having[member].append(name)
    for member, collections in having.items():
        yield f"{path}.[{'|'.join(sorted(collections))}]{member}"


def _groups(path: str, holder: object) -> Iterator[str]:
    """The methods of the groups of a cluster's client, such as those of `ray.clusters`."""
    for name in dir(holder):
        group = None if name.startswith("_") or name == "connection" else getattr(holder, name)
        if _ours(type(group)):
            yield from (f"{path}.{name}{member}" for member in _members(type(group), set()))
            yield from _groups(f"{path}.{name}", group)


def _members(kind: type, fields: Container[str]) -> Iterator[str]:
    """The public methods, properties and constants of a class, inherited ones of ours with them."""
    names = {name for base in kind.__mro__ if _ours(base) for name in vars(base)}
    for name in sorted(names):
        if not name.startswith("_") and name not in fields:
            value = getattr(kind, name)
            yield _function(f".{name}", value) if callable(value) else f".{name}"


def _ours(kind: type) -> bool:
    return kind.__module__.startswith(("steelyard.", "steelyard_"))


def _function(path: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(default=_Default(parameter.default))
        if parameter.default is not parameter.empty
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    returned = signature.replace(parameters=parameters)
    if inspect.isclass(function):
        returned = returned.replace(return_annotation=signature.empty)
    awaited = " (async)" if inspect.iscoroutinefunction(function) else ""
    return f"{path}{_bare(str(returned))}{awaited}"


@dataclasses.dataclass(frozen=True)
class _Default:
    """A default value, shown where it is a plain one: others have addresses of this process in them."""

    value: object

    def __repr__(self) -> str:
        return repr(self.value) if self.value is None or isinstance(self.value, PLAIN_VALUES) else "…"


def _bare(text: str) -> str:
    """The text without the modules of its types."""
    return re.sub(r"(?<![\w.'\"])(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text).replace("~", "")


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"mapping of {', '.join(sorted(map(str, value)))}"
    return _bare(repr(value))


def _entry_points(group: str) -> Iterator[str]:
    """Installed names, with the arguments that each rubric takes."""
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        if point.value.startswith(("steelyard.", "steelyard_")):
            arguments = "" if group == "console_scripts" else _function("", point.load())
            yield f"{group}: {point.name}{arguments}"
