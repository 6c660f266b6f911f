"""Treatment of a `traceparent`, and when a process sends spans."""

import socket
import sys
import threading
from collections.abc import Iterator, Mapping

import pytest

from steelyard.telemetry import tracing
from steelyard.telemetry.tracing import environment_for_steps, send_spans, span, valid

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        PARENT.upper(),
        f"{PARENT}-more",
        PARENT.replace("00-", "ff-", 1),
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
    ],
)
def test_what_is_no_traceparent_is_ignored(text: str | None) -> None:
    assert valid(text) is None
    with span("work", text, root=True) as opened:
        assert opened.traceparent is None


def test_a_callers_traceparent_goes_on_where_no_spans_are_sent() -> None:
    with send_spans("test", environment={}), span("work", PARENT, root=True) as opened:
        opened.set("name", "value")
        opened.fail("reason")
        assert opened.traceparent == PARENT
    assert environment_for_steps() == {}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
    ids=["nothing", "disabled", "no exporter", "another protocol"],
)
def test_nothing_is_imported_where_no_spans_are_sent(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # an import of it fails
    with send_spans("test", environment=environment), span("work", PARENT) as opened:
        assert opened.traceparent == PARENT


def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with send_spans("test", "http://127.0.0.1:9", {}), span("work", PARENT) as opened:
        assert opened.traceparent == PARENT
    assert "pip install 'steelyard[otel]'" in caplog.text


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a receiver that takes connections, and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        yield f"http://127.0.0.1:{receiver.getsockname()[1]}"


def test_a_receiver_that_is_away_delays_nothing(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.05)
    with send_spans("test", silent, {}):
        assert environment_for_steps() == {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{silent}/v1/traces"}
        with span("outer", None, root=True) as outer, span("inner", outer.traceparent) as inner:
            assert outer.traceparent is not None
            assert inner.traceparent is not None
            assert outer.traceparent[:36] == inner.traceparent[:36]
            assert outer.traceparent != inner.traceparent
        with span("alone", None) as alone:
            assert alone.traceparent is None
    assert environment_for_steps() == {}


def test_no_thread_tries_on_once_the_wait_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.05)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        with (
            send_spans("test", f"http://127.0.0.1:{receiver.getsockname()[1]}", {}),
            span("work", None, root=True),
        ):
            pass
        left = set(threading.enumerate()) - before
        assert left  # they wait for the answer
    # The connection has ended: an exporter that was not shut down would try on for a minute.
    for thread in left:
        thread.join(50)
        assert not thread.is_alive()


def test_a_receiver_that_is_away_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
    with send_spans("test", "http://127.0.0.1:9", {}):
        for _ in range(3):
            with span("work", None, root=True):
                pass
            assert tracing._provider is not None
            tracing._provider.force_flush()
    assert [record.getMessage() for record in caplog.records] == [
        "traces: http://127.0.0.1:9/v1/traces does not take spans, which are lost until it does"
    ]


def test_a_password_for_the_receiver_is_not_handed_to_steps() -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
        "OTEL_TRACES_SAMPLER": "always_off",
    }
    with send_spans("test", environment=environment):
        assert set(environment_for_steps()) == {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER"}
