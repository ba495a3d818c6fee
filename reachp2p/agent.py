"""An agent: a named bundle of capabilities, declared with decorators on plain functions.

    agent = Agent("nlp/summarizer", version="1.2.0", tags={"env": "prod"})

    @agent.capability("text.summarize")
    async def summarize(text: str, sentences: int = 3) -> dict: ...

Declaring touches no network: a `Node` (or `run`) offers the agent to others. Everything wrong with a declaration is
an error here, at the line that declares it.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from reachp2p._arguments import check_bool, check_text, is_unicode, shown, wrong
from reachp2p._limits import check_event_limits, check_limits
from reachp2p.core.commands import AgentSpec, CapabilitySpec, InvokeResult, Rate, TopicSpec
from reachp2p.core.ids import check_agent_id, check_capability, check_pattern, check_tag_key, check_version
from reachp2p.core.registry.access import check_access
from reachp2p.errors import InvalidIdentifier, LocalProtocolError

if TYPE_CHECKING:
    from reachp2p._event_handler import EventHandler
    from reachp2p._handler import Handler
    from reachp2p.context import CallingNode
    from reachp2p.runtime.handlers import InvokeContext

F = TypeVar("F", bound=Callable[..., Any])
BoundHandler: TypeAlias = "Callable[[InvokeContext, bytes, str], Awaitable[InvokeResult]]"

KNOWN_TAG_KEYS = (
    "env",
    "zone",
    "region",
    "tier",
    "team",
    "owner",
    "language",
    "model",
    "release",
    "cost_tier",
    "gpu",
)
"""Keys that agents agree on by custom; a key that looks like a slip of one of them is pointed out."""
CAPABILITIES_MAX = 64
"""Bounds of an agent record on the wire (`AgentRecord`)."""
TOPICS_MAX = 64
TAGS_MAX = 32
TAG_VALUE_MAX = 256
DESCRIPTION_MAX = 4_096
OWNER_MAX = 256


class Agent:
    """A named service, `namespace/name`, that one or many nodes offer.

    `version` is a semantic version, `tags` are `lower_snake_case` keys with text values that callers can ask for,
    `weight` (0.1 to 10) is its share of the calls compared with other instances. Raises `InvalidIdentifier` (1707).
    """

    def __init__(
        self,
        agent_id: str,
        *,
        version: str = "0.0.0",
        description: str = "",
        owner: str = "",
        tags: Mapping[str, str] | None = None,
        weight: float = 1.0,
        access: str = "public",
        callers: Sequence[str] = (),
        candidate_percent: int | None = None,
        exclusive: bool = False,
    ) -> None:
        """`access`: `public`; `restricted` to `callers`, each a namespace, `namespace/agent` or a node id in hex; or
        `private` to nodes that offer an agent of this one's namespace. `candidate_percent` (0 to 100) is the share of
        the calls that go to release candidates, which are those with the tag `release=candidate`.
        `exclusive`: of all nodes that offer this agent one serves it and the others stand by, to take over when it is
        gone; `Context.fencing_token` tells owners apart.
        """
        self.id = check_agent_id(check_text("agent id", agent_id, "nlp/summarizer"))
        self.version = check_version(check_text("version", version, "1.2.0"))
        self.description = _check_text("description", description, DESCRIPTION_MAX)
        self.owner = _check_text("owner", owner, OWNER_MAX)
        self.tags = _check_tags({} if tags is None else tags)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.1 <= weight <= 10:
            raise InvalidIdentifier(f"weight {shown(weight)} of {agent_id}: write a number from 0.1 to 10")
        self.weight = float(weight)
        if isinstance(callers, str) or not isinstance(callers, Iterable):
            raise wrong("callers", callers, 'a list of texts, as in ["shop", "nlp/router"]')
        self.access, self.callers = check_text("access", access, "restricted"), tuple(callers)
        check_access(self.access, self.callers)
        self.candidate_percent = _check_percent(candidate_percent, self.tags)
        self.exclusive = check_bool(f"agent {agent_id!r}: exclusive", exclusive)
        self._handlers: dict[str, Handler] = {}
        self._event_handlers: dict[str, EventHandler] = {}
        self._topics: dict[str, TopicSpec] = {}
        self._specs: dict[str, CapabilitySpec] = {}

    def capability(
        self,
        name: str = "",
        *,
        description: str | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
        task_timeout: float | None = None,
        concurrency: int = 64,
        queue: int | None = None,
        rate: Rate | None = None,
    ) -> Callable[[F], F]:
        """Offer the decorated function under `name`; the function itself stays as it is.

        `repeatable` says that running twice for one call does no harm, so that a call whose instance is lost is
        tried again elsewhere. `timeout` (seconds) is the synchronous limit of a call that names none: what takes longer
        goes on as a task, for `task_timeout` seconds (an hour by default) at most. `concurrency` bounds the calls that
        run at once on one node, `queue` those that may wait (as many, if not given); further ones are refused at once
        (1406). `rate` bounds how fast each caller may call at each node, `Rate(10, burst=50)`; beyond it 1410.
        A call of a plain function that ends before the function does (its deadline, a cancellation) gives its place
        back while the thread goes on: what must never run twice at a time needs a lock of its own.
        """
        if callable(name) or name == "":
            raise LocalProtocolError('name the capability: @agent.capability("text.summarize")')
        check_capability(check_text("capability", name, "text.summarize"))
        check_bool(f"capability {name!r}: repeatable", repeatable)
        limits = check_limits(
            name,
            timeout=timeout,
            task_timeout=task_timeout,
            concurrency=concurrency,
            queue=queue,
            rate=rate,
        )

        def declare(function: F) -> F:
            self._declare(name, function, description, repeatable, limits)
            return function

        return declare

    def on(self, pattern: str, *, concurrency: int = 1, timeout: float | None = None) -> Callable[[F], F]:
        """Let the decorated function handle the events whose topics match `pattern`; the function stays as it is.

        `*` stands for one token, `>` at the end for one or more, as in `orders.*.created` and `orders.>`. It takes the
        `TopicEvent`, and a `Context` if it asks for one. `concurrency` events are handled at once on one node, with 1
        in order; 1,024 more wait, then the oldest is dropped. `timeout` (30 s) is the time for one event.
        """
        if callable(pattern) or pattern == "":
            raise LocalProtocolError('name the topics: @agent.on("orders.*.created")')
        check_pattern(check_text("pattern", pattern, "orders.*.created"))
        check_event_limits(pattern, timeout=timeout, concurrency=concurrency)

        def declare(function: F) -> F:
            # As with capabilities: who handles nothing need not load what reads types.
            from reachp2p._event_handler import EventHandler

            if pattern in self._topics:
                raise InvalidIdentifier(f"events {pattern!r} of {self.id} have a handler already")
            if len(self._topics) == TOPICS_MAX:
                raise LocalProtocolError(
                    f"{self.id} handles {TOPICS_MAX} patterns already; use a wider one, or split the agent"
                )
            topic = TopicSpec(pattern=pattern, concurrency_max=concurrency, timeout=timeout)
            try:
                self._event_handlers[topic.handler] = EventHandler(topic.handler, function)
            except LocalProtocolError as error:
                raise type(error)(
                    f"events {pattern!r}, handler {_place(function)}: {error.message}"
                ) from error
            self._topics[pattern] = topic
            return function

        return declare

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The names declared so far, in order."""
        return tuple(self._handlers)

    @property
    def spec(self) -> AgentSpec:
        """What the node announces: the declaration as plain values, with the exact bytes of the schemas."""
        return AgentSpec(
            agent=self.id,
            version=self.version,
            description=self.description,
            owner=self.owner,
            capabilities=tuple(self._specs.values()),
            tags=dict(self.tags),
            weight=self.weight,
            access=self.access,
            callers=self.callers,
            candidate_percent=self.candidate_percent,
            exclusive=self.exclusive,
            topics=tuple(self._topics.values()),
        )

    def bind(self, node: CallingNode) -> dict[str, BoundHandler]:
        """What `node` runs, by capability: `async (InvokeContext, payload, content_type) -> InvokeResult`."""
        handlers: dict[str, Handler | EventHandler] = {**self._handlers, **self._event_handlers}
        return {name: partial(handler.serve, node) for name, handler in handlers.items()}

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, version={self.version!r}, capabilities={list(self._handlers)})"

    def _declare(
        self,
        name: str,
        function: Callable[..., Any],
        description: str | None,
        repeatable: bool,
        limits: Mapping[str, Any],
    ) -> None:
        # A node that only calls others needs no agent, and so none of what reads types and checks schemas (40 ms).
        from reachp2p._handler import Handler
        from reachp2p._signature import read_signature
        from reachp2p.context import Context

        if name in self._handlers:
            raise InvalidIdentifier(f"capability {name!r} of {self.id} is declared twice")
        if len(self._handlers) == CAPABILITIES_MAX:
            raise LocalProtocolError(
                f"{self.id} has {CAPABILITIES_MAX} capabilities already; split the agent"
            )
        try:
            signature = read_signature(function, Context)
            handler = Handler(name, function, signature)
            summary = _check_text("description", signature.summary if description is None else description)
        except LocalProtocolError as error:
            raise type(error)(f"capability {name!r}, handler {_place(function)}: {error.message}") from error
        self._specs[name] = CapabilitySpec(
            name=name,
            description=summary,
            parameters=handler.parameters_schema,
            result=handler.result_schema,
            repeatable=repeatable,
            stream=handler.stream,
            parameter_item=handler.item_schema,
            **limits,
        )
        self._handlers[name] = handler


def _check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    import difflib

    if not isinstance(tags, Mapping):
        raise wrong("tags", tags, 'a dict of texts, as in {"env": "prod"}')
    if len(tags) > TAGS_MAX:
        raise InvalidIdentifier(f"{len(tags)} tags; an agent has at most {TAGS_MAX}")
    for key, value in tags.items():
        close = difflib.get_close_matches(
            str(key).lower().replace("-", "_"), KNOWN_TAG_KEYS, n=1, cutoff=0.75
        )
        try:
            if not isinstance(key, str):
                raise InvalidIdentifier(f"tag key {shown(key)}: write text, as in 'env'")
            check_tag_key(key)
        except InvalidIdentifier as error:
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidIdentifier(error.message + hint) from None
        if close and key not in KNOWN_TAG_KEYS:
            warnings.warn(
                f"tag key {key!r} looks like a slip of {close[0]!r}, which callers are more likely to ask for",
                stacklevel=3,
            )
        if not isinstance(value, str) or not value or len(value) > TAG_VALUE_MAX or not is_unicode(value):
            raise InvalidIdentifier(
                f"tag {key!r}: its value is text of 1 to {TAG_VALUE_MAX} characters, not {shown(value)}"
            )
    return dict(tags)


def _check_text(what: str, text: str, limit: int = DESCRIPTION_MAX) -> str:
    if not isinstance(text, str) or len(text) > limit or not is_unicode(text):
        raise InvalidIdentifier(f"the {what} is text of at most {limit:,} characters, not {shown(text)}")
    return text


def _check_percent(percent: int | None, tags: Mapping[str, str]) -> int | None:
    if percent is None:
        return None
    if isinstance(percent, bool) or not isinstance(percent, int) or not 0 <= percent <= 100:
        raise InvalidIdentifier(f"candidate_percent is a whole number from 0 to 100, not {shown(percent)}")
    if tags.get("release") != "candidate":
        raise InvalidIdentifier('candidate_percent is for agents with the tag release="candidate"')
    return percent


def _place(function: Callable[..., Any]) -> str:
    """`summarize (app.py:12)`, so that the reader finds the line."""
    name = getattr(function, "__qualname__", repr(function))
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
