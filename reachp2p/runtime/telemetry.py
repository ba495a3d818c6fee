"""OpenTelemetry spans of calls and invocations, if the program has an SDK; names and attributes are those below.

Only `opentelemetry-api` is used, and only if the program has loaded it before the node is made: without it there is
nothing to tell, and nothing is imported. Hops go by the ids of these spans, so that one leads to the other
(docs/protocol/sessions.md). Whatever an SDK raises is counted and fails no call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from reachp2p import __version__
from reachp2p.core.calls.trace import SAMPLED, read_traceparent, write_traceparent
from reachp2p.core.commands import CallSpec
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Invoke
from reachp2p.core.events import CallEnded
from reachp2p.core.ids import short
from reachp2p.errors import ErrorCode

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

TRACER = "reachp2p"

# Of the semantic conventions for RPC: https://opentelemetry.io/docs/specs/semconv/rpc/rpc-spans/
RPC_SYSTEM, RPC_SERVICE, RPC_METHOD = "rpc.system", "rpc.service", "rpc.method"
SYSTEM = "reachp2p"
ERROR_TYPE = "error.type"
"""The code of a call that failed, as text."""
# Our own.
NODE, CALLER = "reachp2p.node", "reachp2p.caller"
"""The node that has answered, or that calls: the first eight digits of its id."""
SESSION, ATTEMPTS, ATTEMPT = "reachp2p.session", "reachp2p.attempts", "reachp2p.attempt"
CODE = "reachp2p.code"


def find_telemetry(counters: Counters) -> Telemetry | None:
    """What makes spans, if the program has loaded the API of OpenTelemetry."""
    return Telemetry(counters) if "opentelemetry.trace" in sys.modules else None


def span_name(agent: str | None, capability: str | None) -> str:
    """`nlp/summarizer/text.summarize`: service and method, as the conventions have it."""
    return "/".join(part for part in (agent, capability) if part) or "call"


class Telemetry:
    """Makes the spans of one node."""

    def __init__(self, counters: Counters) -> None:
        from opentelemetry import context, trace

        self._context, self._trace = context, trace
        self._tracer = trace.get_tracer(TRACER, __version__)
        self._counters = counters

    def client(self, spec: CallSpec) -> tuple[CallSpec, ClientSpan | None]:
        """A span for a call that is about to begin, and the call with that span in it."""
        try:
            return self._client(spec)
        except Exception:  # noqa: BLE001 (the SDK is the application's, and must cost nobody a call)
            self._counters.add("telemetry.failed")
            return spec, None

    def server(self, invoke: Invoke) -> ServerSpan | None:
        """A span for an invocation that is about to begin; the current one of this task until its end."""
        try:
            return self._server(invoke)
        except Exception:  # noqa: BLE001 (as above)
            self._counters.add("telemetry.failed")
            return None

    def _client(self, spec: CallSpec) -> tuple[CallSpec, ClientSpan | None]:
        trace, query = self._trace, spec.query
        given = read_traceparent(spec.traceparent) if spec.traceparent is not None else None
        current = trace.get_current_span().get_span_context()
        context: Context | None = None  # the current one
        if given is not None and not (current.is_valid and current.trace_id.to_bytes(16) == given.trace):
            context = self._remote(given.trace, given.parent, given.flags)
        span = self._tracer.start_span(
            span_name(query.agent, query.capability),
            context=context,
            kind=trace.SpanKind.CLIENT,
            attributes=_attributes(query.agent, query.capability),
        )
        told = span.get_span_context()
        if not told.is_valid or told.span_id in (current.span_id, given and int.from_bytes(given.parent)):
            return spec, None  # there is no SDK, and the span is the one above
        traceparent = spec.traceparent
        if given is None:  # on behalf of the program's own span, or the first of its trace
            above = current if current.is_valid and current.trace_id == told.trace_id else told
            traceparent = _traceparent(told, above.span_id)
        carried = msgspec.structs.replace(spec, traceparent=traceparent, span=told.span_id.to_bytes(8))
        return carried, ClientSpan(span, self)

    def _server(self, invoke: Invoke) -> ServerSpan | None:
        trace = self._trace
        own = read_traceparent(invoke.traceparent) if invoke.traceparent is not None else None
        if own is None or not invoke.caller_span:
            return None
        span = self._tracer.start_span(
            span_name(invoke.agent, invoke.capability),
            context=self._remote(own.trace, invoke.caller_span, own.flags),
            kind=trace.SpanKind.SERVER,
            attributes={
                **_attributes(invoke.agent, invoke.capability),
                CALLER: short(invoke.caller),
                ATTEMPT: invoke.attempt,
                SESSION: (invoke.session_id or own.trace).hex(),
            },
        )
        told = span.get_span_context()
        if not told.is_valid or told.span_id == int.from_bytes(invoke.caller_span):
            return None  # as above
        token = self._context.attach(trace.set_span_in_context(span))
        return ServerSpan(span, token, _traceparent(told, told.span_id), told.span_id.to_bytes(8), self)

    def _remote(self, trace: bytes, span: bytes, flags: str) -> Context:
        """The context of a span at another node."""
        told = self._trace.SpanContext(
            trace_id=int.from_bytes(trace),
            span_id=int.from_bytes(span),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(int(flags == SAMPLED)),
        )
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(told), self._context.Context())

    def finish(
        self, span: Span, code: int, detail: str, attributes: dict[str, Any], token: Any = None
    ) -> None:
        """End a span: with an error, if it is one."""

        def end() -> None:
            if token is not None:
                self._context.detach(token)
            for name, value in attributes.items():
                span.set_attribute(name, value)
            if code:
                span.set_attribute(ERROR_TYPE, str(code))
                span.set_attribute(CODE, code)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, detail or None))
            span.end()

        self.guard(end)

    def guard(self, function: Callable[[], None]) -> None:
        """Whatever it raises is counted."""
        try:
            function()
        except Exception:  # noqa: BLE001 (as above)
            self._counters.add("telemetry.failed")


class ClientSpan:
    """The span of a call of this node."""

    def __init__(self, span: Span, telemetry: Telemetry) -> None:
        self._span = span
        self._telemetry = telemetry

    def end(self, ended: CallEnded) -> None:
        """The call has ended."""
        told: dict[str, Any] = {ATTEMPTS: ended.attempts}
        if ended.node is not None:
            told[NODE] = short(ended.node)
        if ended.agent is not None:
            told[RPC_SERVICE] = ended.agent
        self._telemetry.finish(self._span, ended.code, ended.detail, told)

    def fail(self, code: int, detail: str) -> None:
        """It has not begun, or nothing more will be heard of it."""
        self._telemetry.finish(self._span, code, detail, {})


class ServerSpan:
    """The span of an invocation, current in its task."""

    def __init__(
        self, span: Span, token: Token[Context], traceparent: str, span_id: bytes, telemetry: Telemetry
    ) -> None:
        self._span = span
        self._token = token
        self._telemetry = telemetry
        self.traceparent = traceparent
        """In which its handler works."""
        self.span_id = span_id

    def end(self, code: int | None, detail: str) -> None:
        """Its handler has ended; `code` None: cancelled."""
        said = int(ErrorCode.CANCELLED) if code is None else code
        self._telemetry.finish(self._span, said, detail, {}, self._token)


def _attributes(agent: str | None, capability: str | None) -> dict[str, Any]:
    told = {RPC_SYSTEM: SYSTEM, RPC_SERVICE: agent, RPC_METHOD: capability}
    return {name: value for name, value in told.items() if value}


def _traceparent(told: SpanContext, span: int) -> str:
    flags = SAMPLED if told.trace_flags.sampled else "00"
    return write_traceparent(told.trace_id.to_bytes(16), span.to_bytes(8), flags)
