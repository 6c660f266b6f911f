"""A receiver of OTLP over HTTP, which keeps the spans that it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.integration.http_server import QuietHandler, http_server


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it came over the wire."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]


class Receiver:
    """Spans of all processes, in the order in which they came."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self._changed = threading.Condition()
        self.url = ""

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            for resource_spans in request.resource_spans:
                names = {entry.key: entry.value.string_value for entry in resource_spans.resource.attributes}
                for scope_spans in resource_spans.scope_spans:
                    self.spans += [
                        ReceivedSpan(
                            span.name,
                            names["service.name"],
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            {
                                entry.key: entry.value.string_value or str(entry.value.int_value)
                                for entry in span.attributes
                            },
                        )
                        for span in scope_spans.spans
                    ]
            self._changed.notify_all()

    def named(self, trace: str, name: str, seconds: float = 60) -> ReceivedSpan:
        """Wait for a span of a trace."""

        def matching() -> list[ReceivedSpan]:
            return [span for span in self.spans if (span.trace, span.name) == (trace, name)]

        with self._changed:
            assert self._changed.wait_for(matching, seconds), (name, self.of(trace))
            return matching()[0]

    def of(self, trace: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.trace == trace]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of loopback."""
    kept = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            kept.take(self.rfile.read(int(self.headers["Content-Length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with http_server(Handler) as kept.url:
        yield kept
