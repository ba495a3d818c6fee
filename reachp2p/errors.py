"""Every error a user can meet, its stable code, whose fault it is, and whether a retry is safe.

The numbers are append-only (docs/errors.md). A class docstring says whether state has changed when it is raised.
`ReachError` is the root; `LocalProtocolError` and `RemoteProtocolError` say who broke a rule (h11's pair).
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """13xx routing, 14xx calls, 15xx delivery, 16xx trust, 17xx node."""

    UNKNOWN_TARGET = 1301
    TARGET_NOT_SPECIFIED = 1302
    NO_HEALTHY_INSTANCE = 1303
    ACCESS_DENIED = 1304
    ALL_OVERLOADED = 1305
    NO_SUCH_VERSION = 1306
    DEADLINE_EXCEEDED = 1401
    CANCELLED = 1402
    HANDLER_FAILED = 1403
    PAYLOAD_TOO_LARGE = 1404
    SCHEMA_MISMATCH = 1405
    REFUSED_FULL = 1406
    HOPS_USED_UP = 1407
    LOOP = 1408
    OUTCOME_UNKNOWN = 1409
    RATE_LIMITED = 1410
    NODE_LOST = 1411
    STILL_RUNNING = 1412
    KEY_CONFLICT = 1413
    UNKNOWN_SESSION = 1414
    STORE_FULL = 1501
    UNKNOWN_TASK = 1502
    RECEIPT_EXPIRED = 1503
    STALE_EXECUTION_TOKEN = 1504
    FENCED = 1601
    NOT_A_MEMBER = 1602
    CERTIFICATE_EXPIRED = 1603
    REVOKED = 1604
    BAD_SIGNATURE = 1605
    EQUIVOCATION = 1606
    TOKEN_INVALID = 1607
    CLOCK_BEYOND_TOLERANCE = 1608
    NO_SEED_REACHABLE = 1701
    ADDRESS_IN_USE = 1702
    STATE_LOCKED = 1703
    CONFIGURATION_INVALID = 1704
    CLUSTER_MISMATCH = 1705
    STATE_DAMAGED = 1706
    INVALID_IDENTIFIER = 1707
    WIRE_VERSION = 1708


RETRY_SAFE = frozenset(
    {
        ErrorCode.NO_HEALTHY_INSTANCE,
        ErrorCode.ALL_OVERLOADED,
        ErrorCode.REFUSED_FULL,
        ErrorCode.RATE_LIMITED,
        ErrorCode.NODE_LOST,
        ErrorCode.STORE_FULL,
        ErrorCode.NO_SEED_REACHABLE,
    }
)
"""Codes after which the same request may be sent again: nothing has been executed."""


class ReachError(Exception):
    """Root of all errors. `code` is stable; `str(error)` is one line for a person, code included."""

    code: ErrorCode

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def retryable(self) -> bool:
        """Whether the same request may be repeated without the risk of a second execution."""
        return self.code in RETRY_SAFE

    def __str__(self) -> str:
        return f"{self.message} [{int(self.code)}]"


class LocalProtocolError(ReachError):
    """Our own caller used an object against its rules; nothing has changed. Fault: the local program."""

    code = ErrorCode.CONFIGURATION_INVALID


class RemoteProtocolError(ReachError):
    """A remote node sent what no correct node sends; its input was dropped. Fault: the remote."""

    code = ErrorCode.BAD_SIGNATURE


class InvalidIdentifier(LocalProtocolError, ValueError):
    """A name that is not well formed. Fault: the caller; nothing has changed."""

    code = ErrorCode.INVALID_IDENTIFIER


class ConfigurationInvalid(LocalProtocolError, ValueError):
    """A setting that cannot be used. Fault: the operator; nothing was started."""

    code = ErrorCode.CONFIGURATION_INVALID


class NodeError(ReachError):
    """The node cannot start or go on. `code` says why. Fault: the machine or the operator."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class CallFailed(ReachError):
    """A call ended without a result. `code` says how (13xx before it was sent, 14xx after).

    `node` is the short id of the node where it failed, if one was reached; `attempts` counts the instances that were
    asked; `detail` is what the other side said (for 1405 the path of the offending field comes first);
    `caller_fault` is true if the handler says so (1403, `BadRequest`); `retry_after` are the seconds after which the
    instance would take another call (1410); `items` counts the items of a stream that came before; `call` names the
    call: `reachp2p trace` and `Node.trace` of the node that made it show how it went.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        node: str | None = None,
        attempts: int = 0,
        detail: str | None = None,
        caller_fault: bool = False,
        retry_after: float | None = None,
        items: int = 0,
        call: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.call = call
        self.node = node
        self.attempts = attempts
        self.detail = detail
        self.caller_fault = caller_fault
        self.retry_after = retry_after
        self.items = items


class BadRequest(ReachError):
    """Raised by a handler whose caller asks for what makes no sense: the call fails with 1403, at the caller's fault.

    For what a schema cannot say ("no such order"). It says nothing about the health of the instance: nobody avoids it
    for that, nothing is logged as a failure, and the call is not made again. Fault: the caller.
    """

    code = ErrorCode.HANDLER_FAILED
