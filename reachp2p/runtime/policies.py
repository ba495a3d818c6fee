"""Routing policies that other packages bring: the entry points of the group `reachp2p.policies`, by name.

    [project.entry-points."reachp2p.policies"]
    cheapest = "our_package.routing:Cheapest"

An entry point names a factory: called with an `Rng`, it returns a `Policy` (`reachp2p.core.routing.policy`). Nothing is
loaded before a call asks for its policy. One that has the name of a built-in policy is refused: a call that names
`random` must mean the same everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import Rng
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import Account, Choice, Policy, PolicyFactory
from reachp2p.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "reachp2p.policies"
logger = logging.getLogger(__name__)
_WANTED = ("missing", "choose", "on_picked", "on_started", "on_ended", "account")


class Policies(Mapping[str, PolicyFactory]):
    """All policies there are: what comes with reachp2p, and what other packages bring.

    Raises `ConfigurationInvalid` (1704) when an entry point cannot be used, and names it: two of one name, or one
    that has the name of a built-in policy, when somebody first asks for a policy that is not built in; what cannot be
    loaded or is no policy, when it is asked for itself.
    """

    def __init__(self) -> None:
        self._brought: dict[str, EntryPoint] | None = None

    def __getitem__(self, name: str) -> PolicyFactory:
        if name in BUILT_IN:
            return BUILT_IN[name]
        point = self._found()[name]

        def make(rng: Rng) -> Policy:
            return _load(point, rng)

        return make

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from self._found()

    def __len__(self) -> int:
        return len(BUILT_IN) + len(self._found())

    def _found(self) -> dict[str, EntryPoint]:
        """The entry points of all packages; to look for them takes some milliseconds, and is done once."""
        from importlib.metadata import entry_points  # loads 15 modules, which most nodes need not pay for

        if self._brought is None:
            found: dict[str, EntryPoint] = {}
            for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
                if point.name in BUILT_IN:
                    raise ConfigurationInvalid(
                        f"policy {point.name!r} ({_where(point)}): the name is built in"
                    )
                other = found.setdefault(point.name, point)
                if other.value != point.value:
                    raise ConfigurationInvalid(
                        f"policy {point.name!r} comes from two packages: {_where(other)} and {_where(point)}"
                    )
            self._brought = found
        return self._brought


def _load(point: EntryPoint, rng: Rng) -> Policy:
    try:
        policy: Any = point.load()(rng)
    except Exception as error:
        raise ConfigurationInvalid(
            f"policy {point.name!r} ({_where(point)}) cannot be made: {type(error).__name__}: {error}"
        ) from error
    lacking = [name for name in _WANTED if not callable(getattr(policy, name, None))]
    if lacking:
        raise ConfigurationInvalid(
            f"policy {point.name!r} ({_where(point)}) lacks {', '.join(lacking)}: let it inherit from "
            "reachp2p.core.routing.policy.Policy"
        )
    return Guarded(point, policy)


class Guarded(Policy):
    """A policy of others, whose mistakes are a call's failure (1704) and never the node's."""

    def __init__(self, point: EntryPoint, policy: Policy) -> None:
        self._where = f"policy {point.name!r} ({_where(point)})"
        self._policy = policy
        self._is_told = False

    def missing(self, query: RouteQuery) -> str | None:
        """As the policy says."""
        try:
            return self._policy.missing(query)
        except Exception as error:
            raise self._failed("missing", error) from error

    def choose(self, choice: Choice) -> Instance | None:
        """As the policy says, if that is one of the candidates."""
        try:
            instance = self._policy.choose(choice)
            is_candidate = instance is None or choice.candidates.get(instance.key) is instance
        except Exception as error:
            raise self._failed("choose", error) from error
        if not is_candidate:
            raise ConfigurationInvalid(f"{self._where} chose what is no candidate")
        return instance

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """The policy is told."""
        self._tell("on_picked", choice, instance)

    def on_started(self, choice: Choice, instance: Instance) -> None:
        """The policy is told."""
        self._tell("on_started", choice, instance)

    def on_ended(self, choice: Choice, instance: Instance) -> None:
        """The policy is told."""
        self._tell("on_ended", choice, instance)

    def account(self, choice: Choice, instance: Instance) -> Account:
        """As the policy says; what is wrong with it stands in the reason."""
        count = len(choice.candidates)
        try:
            account = self._policy.account(choice, instance)
            if len(account.shares) == count:
                return account
            because = f"{self._where} gives {len(account.shares)} shares for {count} candidates"
        except Exception as error:  # noqa: BLE001 (it is told where people read it)
            because = str(self._failed("account", error))
        return Account(because, [1 / count] * count)

    def _tell(self, what: str, choice: Choice, instance: Instance) -> None:
        """What a policy cannot remember ends no call; the log says it once."""
        try:
            getattr(self._policy, what)(choice, instance)
        except Exception:
            if not self._is_told:
                self._is_told = True
                logger.exception("%s: %s has failed, and may again without a word", self._where, what)

    def _failed(self, what: str, error: Exception) -> ConfigurationInvalid:
        return ConfigurationInvalid(f"{self._where}: {what} has failed: {type(error).__name__}: {error}")


def _where(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"{point.value}{package}"
