"""Traces of requests and of what follows from them: W3C's `traceparent` is passed on, and spans are sent where asked.

Spans go to a receiver of OTLP over HTTP, by OpenTelemetry's own library, where the standard variables (OTEL_…) or the
settings name one; without one nothing of it is imported, and a caller's `traceparent` still goes through all parts. No
span is ever waited for: what cannot be sent in time is lost.
"""

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from steelyard_common import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OpenTelemetrySpan

TRACEPARENT = "TRACEPARENT"
"""Variable in which a step finds the span that it belongs to, as other tools hand it to programs."""
FLUSH_SECONDS = 3.0
"""Time that a process which ends waits for its last spans."""
_VALID = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HANDED_ON = (*_ENDPOINTS, "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG")
"""Variables that steps get as well. OTEL_EXPORTER_OTLP_HEADERS is not among them: it may hold a password."""
_log = logging.getLogger(__name__)

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
Attribute = str | int | float | bool


class Span(Protocol):
    """One operation of a trace, open until its block ends. `traceparent` makes others its children."""

    @property
    def traceparent(self) -> str | None: ...

    def set(self, name: str, value: Attribute) -> None:
        """Describe the operation."""
        ...

    def fail(self, reason: str) -> None:
        """Mark the operation as failed."""
        ...


class _PassedSpan:
    """A span where none is sent: those that follow belong to its parent."""

    def __init__(self, traceparent: str | None) -> None:
        self.traceparent = traceparent

    def set(self, name: str, value: Attribute) -> None:
        pass

    def fail(self, reason: str) -> None:
        pass


class _SentSpan:
    """A span of OpenTelemetry."""

    def __init__(self, span: "OpenTelemetrySpan") -> None:
        self._span = span

    @property
    def traceparent(self) -> str | None:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def set(self, name: str, value: Attribute) -> None:
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, reason))


_provider: "TracerProvider | None" = None
"""Destination of the spans of this process: one, as OpenTelemetry's own is one for a process."""
_for_steps: Mapping[str, str] = {}


def valid(traceparent: str | None) -> str | None:
    """Return what W3C calls a valid `traceparent` of version 00; None for anything else, which is to be ignored."""
    return traceparent if traceparent and _VALID.fullmatch(traceparent) else None


@contextmanager
def span(
    name: str,
    parent: str | None,
    *,
    kind: SpanKind = "internal",
    root: bool = False,
    attributes: Mapping[str, Attribute] | None = None,
) -> Iterator[Span]:
    """Open a span below `parent`, a `traceparent`. Without a parent there is none, unless it may be a `root`."""
    parent = valid(parent)
    if _provider is None or (parent is None and not root):
        yield _PassedSpan(parent)
        return
    begun = _begin(_provider, name, parent, kind, attributes or {})
    sent = _SentSpan(begun)
    try:
        yield sent
    except BaseException as error:
        # The type alone: a text may quote what the spans' receiver must not see.
        sent.fail(type(error).__name__)
        raise
    finally:
        begun.end()


def environment_for_steps() -> Mapping[str, str]:
    """Return the variables by which a program that this process starts in a Pod sends its spans to the same place."""
    return _for_steps


@contextmanager
def send_spans(part: str, endpoint: str = "", environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Send spans while the block runs, as `steelyard-PART`, if OTEL_… variables or else `endpoint` say where to."""
    global _provider, _for_steps
    if not (where := _receiver(endpoint, environment)):
        yield
        return
    try:
        _provider, exporter = _open(part, where)
    except ImportError as error:
        _log.warning("no traces are sent: they need %s: pip install 'steelyard[otel]'", error.name)
        yield
        return
    _for_steps = {name: environment[name] for name in _HANDED_ON if environment.get(name)}
    if not any(name in _for_steps for name in _ENDPOINTS):
        _for_steps = {**_for_steps, _ENDPOINTS[0]: where}
    try:
        yield
    finally:
        provider, _provider, _for_steps = _provider, None, {}
        # On a thread that is never waited for: a receiver that does not answer would hold the process for a minute.
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(FLUSH_SECONDS)
        if ending.is_alive():
            exporter.shutdown()  # what is not sent is lost: in a process that lives longer, no thread tries on


def _receiver(endpoint: str, environment: Mapping[str, str]) -> str:
    """Return the URL to which spans are posted; nothing where none is named, or the user has turned it off."""
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return ""
    traces, all_signals = (environment.get(name, "") for name in _ENDPOINTS)
    base = all_signals or endpoint
    where = traces or (f"{base.rstrip('/')}/v1/traces" if base else "")
    protocol = next((value for name in _PROTOCOLS if (value := environment.get(name))), "http/protobuf")
    if where and protocol != "http/protobuf":
        _log.warning("no traces are sent: OTLP goes by http/protobuf here, not by %s", protocol)
        return ""
    return where


def _open(part: str, endpoint: str) -> "tuple[TracerProvider, SpanExporter]":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    # Its own lines come with every try: a receiver that is away for an hour would fill the log with thousands.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    class Exporter(OTLPSpanExporter):
        """Exporter that says once that spans are lost, and once that they are taken again."""

        lost = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export(spans)
            if self.lost != (lost := result is not SpanExportResult.SUCCESS):
                self.lost = lost
                text = "does not take spans, which are lost until it does" if lost else "takes spans again"
                _log.warning("traces: %s %s", endpoint, text)
            return result

    names = {"service.name": f"steelyard-{part}", "service.version": __version__}
    # At the end of the process the library must not shut it down: that would wait without a limit.
    provider = TracerProvider(
        resource=Resource.create({"service.namespace": "steelyard", **names}), shutdown_on_exit=False
    )
    exporter = Exporter(endpoint=endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider, exporter


def _begin(
    provider: "TracerProvider",
    name: str,
    parent: str | None,
    kind: SpanKind,
    attributes: Mapping[str, Attribute],
) -> "OpenTelemetrySpan":
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind as Kinds
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = Context()
    if parent is not None:
        context = TraceContextTextMapPropagator().extract({"traceparent": parent}, context)
    tracer = provider.get_tracer("steelyard", __version__)
    return tracer.start_span(name, context, Kinds[kind.upper()], attributes=dict(attributes))
