"""The stages that decide who may be asked: one list, judged when something changes, never for each call.

    match -> tags -> version -> release -> zone -> access -> liveness -> breaker

A stage REMOVEs an instance (it is no candidate, and it is off the ring: placement counts it out), or lets it PASS.
Between the two it keeps its place on the ring, so that a moment's doubt moves no key: AVOID skips it while another
candidate exists, BUSY while one exists with more room, EJECT does so for a part of a pool only, WITHHOLD lets nobody
ask it. A stage whose judgement changes for a reason of its own (a breaker that opens) asks the table to judge again
(`RoutingTable.reconsider`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Protocol

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.versions import parse_range, read_version
from reachp2p.errors import ErrorCode


class Selector(msgspec.Struct, frozen=True, gc=False):
    """What a call asks for, apart from how to choose: the name of a pool. `agent` may be a namespace, beside a
    capability. `tags` are sorted pairs."""

    capability: str | None
    agent: str | None
    tags: tuple[tuple[str, str], ...] = ()
    version: str | None = None
    side: str | None = None
    """Of a release split: `candidate` or `stable`."""
    zone: str | None = None

    @classmethod
    def of(cls, query: RouteQuery) -> Selector:
        """The selector of a query."""
        tags = query.tags
        pairs = tuple(tags.items()) if len(tags) < 2 else tuple(sorted(tags.items()))
        return cls(query.capability, query.agent, pairs, query.version)

    def __str__(self) -> str:
        """The target in words, as in `text.summarize of nlp/summarizer@^1.2 with env=prod`."""
        name = self.agent or "anything"
        if self.capability is not None:
            name = self.capability if self.agent is None else f"{self.capability} of {_all_of(self.agent)}"
        if self.version is not None:
            name = f"{name}@{self.version}"
        if self.tags:
            name = f"{name} with {', '.join(f'{key}={value}' for key, value in self.tags)}"
        if self.side is not None:
            name = f"{name}, release {self.side}"
        return name if self.zone is None else f"{name}, in zone {self.zone}"


class Verdict(IntEnum):
    """What a stage says about an instance; of several, the highest counts."""

    PASS = 0
    EJECT = 1
    """Skipped, if it is among the first tenth of its pool to be so, and not the last (`pool`)."""
    BUSY = 2
    """Skipped while another exists that has more room, asked before those that are doubted."""
    AVOID = 3
    """Skipped while another candidate exists; asked as a last resort."""
    WITHHOLD = 4
    """Not asked, not even as a last resort."""
    REMOVE = 5
    """Not asked, and off the ring."""


class Stage(Protocol):
    """One question about an instance. `code` is the error of a call whose last candidates end here."""

    name: str
    code: ErrorCode
    depends_on_caller: ClassVar[bool] = False
    """Whether two nodes with equal views may judge otherwise for ever: it is left out of what views are compared by."""

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """Whether `instance` may serve `selector` now; cheap, and without side effects."""

    def why(self, selector: Selector, instance: Instance) -> str:
        """The reason for a judgement other than PASS, in a few words without the name of the instance."""


def _all_of(agent: str) -> str:
    """An agent; a namespace as `nlp/*`."""
    return agent if "/" in agent else f"{agent}/*"


def is_of(agent: str, wanted: str) -> bool:
    """Whether this is the agent that is wanted, or one of that namespace."""
    return agent == wanted or ("/" not in wanted and agent.partition("/")[0] == wanted)


class Match(Stage):
    """Does it offer the capability, and is it the agent, or of the namespace?"""

    name = "match"
    code = ErrorCode.UNKNOWN_TARGET

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE what is not named."""
        offers = selector.capability is None or selector.capability in instance.info.capabilities
        named = selector.agent is None or is_of(instance.agent, selector.agent)
        return Verdict.PASS if offers and named else Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Which name does not fit."""
        if selector.agent is not None and not is_of(instance.agent, selector.agent):
            return f"is not {_all_of(selector.agent)}"
        return f"does not offer {selector.capability}"


class Tags(Stage):
    """Does it carry every tag asked for, with that value?"""

    name = "tags"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE what lacks a tag or carries another value."""
        tags = instance.info.tags
        for key, value in selector.tags:
            if tags.get(key) != value:
                return Verdict.REMOVE
        return Verdict.PASS

    def why(self, selector: Selector, instance: Instance) -> str:
        """The first tag that differs."""
        tags = instance.info.tags
        for key, value in selector.tags:
            if key not in tags:
                return f"without tag {key}"
            if tags[key] != value:
                return f"with {key}={tags[key]}"
        return "with the tags"


class Versions(Stage):
    """Is its agent of a version in the range asked for?"""

    name = "version"
    code = ErrorCode.NO_SUCH_VERSION

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE what is outside the range; both sides are parsed once (`versions`)."""
        if selector.version is None:
            return Verdict.PASS
        version = read_version(instance.info.version)
        fits = version is not None and version in parse_range(selector.version)
        return Verdict.PASS if fits else Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its version."""
        return f"version {instance.info.version}"


class Release(Stage):
    """Is it on the side of the release split that was chosen for the call?"""

    name = "release"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE the other side."""
        is_asked = selector.side is None or selector.side == instance.info.side
        return Verdict.PASS if is_asked else Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its side."""
        return f"release {instance.info.side}"


class Zone(Stage):
    """Is its node in the zone that was chosen for the call?"""

    name = "zone"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """REMOVE other zones."""
        is_asked = selector.zone is None or selector.zone == instance.zone
        return Verdict.PASS if is_asked else Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its zone."""
        return f"in zone {instance.zone}" if instance.zone else "in no zone"


class Liveness(Stage):
    """Is its node there, in the life that registered it?

    DEAD, LEFT and unknown nodes and records of another life are out. SUSPECT nodes, nodes whose process answered by
    refusal, nodes to which no link opens from here, nodes that come and go, and nodes that do not answer this one while
    it is out of touch, keep their place and are avoided.
    """

    name = "liveness"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """See the class."""
        state = instance.state
        if state is MemberState.ALIVE or state is MemberState.SUSPECT:
            if instance.node_life != instance.info.life:
                return Verdict.REMOVE
            doubted = instance.refused or instance.unreached or instance.unsteady or instance.unanswered
            return Verdict.AVOID if doubted or state is MemberState.SUSPECT else Verdict.PASS
        return Verdict.REMOVE

    def why(self, selector: Selector, instance: Instance) -> str:
        """The state that keeps it out."""
        state = instance.state
        if state is None:
            return "forgotten or not yet known"
        if state is MemberState.ALIVE or state is MemberState.SUSPECT:
            if instance.node_life != instance.info.life:
                return "registered by another life"
            if instance.refused:
                return "process gone"
            if instance.unreached and state is MemberState.ALIVE:
                return "not reached from here"
            if instance.unsteady and state is MemberState.ALIVE:
                return "comes and goes"
            if instance.unanswered and state is MemberState.ALIVE:
                return "does not answer"
        return str(state.value)


STAGES: tuple[Stage, ...] = (Match(), Tags(), Versions(), Release(), Zone(), Liveness())


def judge(stages: tuple[Stage, ...], selector: Selector, instance: Instance) -> tuple[Verdict, Stage | None]:
    """The verdict of the whole list and the stage that gave it: the first that removes, else the strictest."""
    strictest, said_by = Verdict.PASS, None
    for stage in stages:
        verdict = stage.judge(selector, instance)
        if verdict is Verdict.PASS:
            continue
        if verdict is Verdict.REMOVE:
            return verdict, stage
        if verdict > strictest:
            strictest, said_by = verdict, stage
    return strictest, said_by
