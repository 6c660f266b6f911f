"""Figures of one API process, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from steelyard.api.http.routing import Route

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Requests by route and status, and how long they took; `registry` also holds what the process counts beside."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        names = ["method", "route"]
        self._requests = Counter(
            "steelyard_api_requests", "Requests answered.", [*names, "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "steelyard_api_request_seconds",
            "Time to answer.",
            names,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._left_out = Counter(
            "steelyard_api_entities_left_out",
            "Entities that could not be read, left out of an answer.",
            ["kind"],
            registry=self.registry,
        )
        # A look-up by labels costs as much as the count itself.
        self._counters: dict[tuple[int, int], Counter] = {}
        self._timers: dict[int, Histogram] = {}

    def left_out(self, kind: str) -> None:
        self._left_out.labels(kind).inc()

    def answered(self, route: Route | None, status: int, seconds: float) -> None:
        key = id(route)
        method, path = (route.method, route.path) if route else ("", "none")
        counter = self._counters.get((key, status))
        if counter is None:
            counter = self._counters[key, status] = self._requests.labels(method, path, str(status))
            self._timers[key] = self._seconds.labels(method, path)
        counter.inc()
        self._timers[key].observe(seconds)
