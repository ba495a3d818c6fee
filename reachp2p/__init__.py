"""reachp2p: agents that find each other, call each other and survive each other's faults, without a broker.

    from reachp2p import Agent, run

Names are loaded when they are first used (PEP 562), so that importing a module of `reachp2p.core` loads no trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reachp2p.agent import Agent
    from reachp2p.context import Context
    from reachp2p.core.commands import Rate
    from reachp2p.errors import (
        BadRequest,
        CallFailed,
        ConfigurationInvalid,
        ErrorCode,
        InvalidIdentifier,
        NodeError,
        ReachError,
    )
    from reachp2p.runtime.call_stream import CallStream
    from reachp2p.runtime.node import Node
    from reachp2p.runtime.run import run
    from reachp2p.runtime.tasks import StillRunning, Task
    from reachp2p.topic_event import TopicEvent

__version__ = "0.1.0"

_HOME = {
    "Agent": "reachp2p.agent",
    "BadRequest": "reachp2p.errors",
    "CallFailed": "reachp2p.errors",
    "CallStream": "reachp2p.runtime.call_stream",
    "ConfigurationInvalid": "reachp2p.errors",
    "Context": "reachp2p.context",
    "ErrorCode": "reachp2p.errors",
    "InvalidIdentifier": "reachp2p.errors",
    "Node": "reachp2p.runtime.node",
    "NodeError": "reachp2p.errors",
    "Rate": "reachp2p.core.commands",
    "ReachError": "reachp2p.errors",
    "StillRunning": "reachp2p.runtime.tasks",
    "Task": "reachp2p.runtime.tasks",
    "TopicEvent": "reachp2p.topic_event",
    "run": "reachp2p.runtime.run",
}

__all__ = [
    "Agent",
    "BadRequest",
    "CallFailed",
    "CallStream",
    "ConfigurationInvalid",
    "Context",
    "ErrorCode",
    "InvalidIdentifier",
    "Node",
    "NodeError",
    "Rate",
    "ReachError",
    "StillRunning",
    "Task",
    "TopicEvent",
    "__version__",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
