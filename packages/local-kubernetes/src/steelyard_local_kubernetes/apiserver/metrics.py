"""Metrics of the API server, under the names of Kubernetes' own; `core.py` counts them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.rest import Target

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 10, 60)
_VERBS = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "PATCH", "HEAD": "GET"}
_METHODS = frozenset({"GET", "DELETE", *_VERBS})
_LABELS = ["verb", "group", "version", "resource", "subresource", "scope"]


class ApiServerMetrics:
    """Requests by verb and resource, and the objects that are stored."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "apiserver_request", "Requests answered.", [*_LABELS, "code"], registry=registry
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer; of a watch, to its beginning.",
            _LABELS,
            buckets=_SECONDS,
            registry=registry,
        )
        self._objects = Gauge(
            "apiserver_storage_objects", "Objects stored, by kind.", ["resource"], registry=registry
        )
        # Looking a child up by its labels costs as much as counting: the children are kept.
        self._counters: dict[tuple[tuple[str, ...], int], Counter] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}

    def count(self, request: Request, target: Target | None, code: int, seconds: float) -> None:
        """Count an answer. What names no kind that is served has empty labels, whatever its path."""
        labels = _labels(request, target)
        if (counter := self._counters.get((labels, code))) is None:
            counter = self._counters[labels, code] = self._requests.labels(*labels, str(code))
            self._histograms[labels] = self._seconds.labels(*labels)
        counter.inc()
        self._histograms[labels].observe(seconds)

    def show_objects(self, kind: str, number: int) -> None:
        """Show how many objects of a kind are stored."""
        self._objects.labels(kind).set(number)


def _labels(request: Request, target: Target | None) -> tuple[str, ...]:
    # Methods are bounded: the transport lets any word through, and each would be a series of its own.
    method = request.method if request.method in _METHODS else "OTHER"
    verb = _VERBS.get(method, method)
    if target is None:
        return verb, "", "", "", "", ""
    collection = not target.name
    if verb == "GET" and collection:
        verb = "WATCH" if request.flag("watch") else "LIST"
    elif verb == "DELETE" and collection:
        verb = "DELETECOLLECTION"
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    kind = target.kind
    return verb, kind.group, kind.version, kind.plural, target.subresource, scope
