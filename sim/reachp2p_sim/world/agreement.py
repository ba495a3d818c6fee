"""What a story may wait for: views that agree. `agreed` is about who is ALIVE, `converged` about all that is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from reachp2p.core.events import MemberState
from reachp2p_sim.machines.view import fingerprint

if TYPE_CHECKING:
    from reachp2p.core.ids import NodeId
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.world.world import World


class Condition:
    """A condition for `world.run_until` that has a name and can say what is missing."""

    def __init__(self, name: str, holds: Callable[[World], bool]) -> None:
        self.__name__ = name
        self._holds = holds

    def __call__(self, world: World) -> bool:
        return self._holds(world)

    def explain(self, world: World) -> str:
        """Who sees what wrongly."""
        return differences(world)


def _alive_sets_agree(world: World) -> bool:
    if world.core is not None:
        return _core_sees_itself(world.judged)
    truth = world.alive_fingerprint()
    if truth is None:
        return False
    hostile = _hostile(world)
    for host in world.judged:
        life = host.life
        if life is None or host.view.alive ^ _of_hostile(host, hostile) ^ fingerprint(life) != truth:
            return False
    return True


def _hostile(world: World) -> list[NodeId]:
    """Of hostile nodes anything may be believed."""
    return [host.node for host in world.running if host.is_hostile]


def _of_hostile(host: Host, hostile: list[NodeId]) -> int:
    """What a view's ALIVE set amounts to in hostile nodes."""
    total = 0
    for node in hostile:
        held = host.view.members.get(node)
        if held is not None and held.state is MemberState.ALIVE:
            total ^= fingerprint(held.life)
    return total


def _core_sees_itself(core: list[Host]) -> bool:
    """What a declared core holds about the others, who may go on coming and going, does not count."""
    for host in core:
        for other in core:
            held = host.view.members.get(other.node)
            if host is not other and (
                held is None or held.state is not MemberState.ALIVE or held.life != other.life
            ):
                return False
    return True


def _views_agree(world: World) -> bool:
    if not _alive_sets_agree(world):
        return False
    if world.core is not None:
        return len({_held_about(host, world.judged) for host in world.judged}) <= 1
    different = {host.engine.view_hash(): host for host in world.judged}
    hostile = _hostile(world)
    return len(different) <= 1 or len({_content(host, hostile) for host in different.values()}) == 1


Content: TypeAlias = tuple[tuple[object, ...], ...]
LIVING = (MemberState.ALIVE, MemberState.SUSPECT)


def _content(host: Host, hostile: list[NodeId]) -> Content:
    """What a view says, without the numbers that grow when a head is renewed.

    Renewal is no news: it says only that what is known stays valid, and spreads by anti-entropy alone, so in a large
    group some head is always newer here than there.
    """
    verdicts = [
        (e.node, e.life, e.left, e.incarnation, e.dead) for e in host.engine.digest() if e.node not in hostile
    ]
    records = [
        (a.node, a.agent, a.registry_version)
        for a in host.engine.agents()
        if a.state in LIVING and a.node not in hostile
    ]
    return (*verdicts, *records)


def _held_about(host: Host, core: list[Host]) -> Content:
    """The same about a declared core, the host included."""
    nodes = {member.node for member in core}
    lives = [(m.node, m.life, m.incarnation) for m in host.engine.members() if m.node in nodes]
    records = [(a.node, a.agent, a.registry_version) for a in host.engine.agents() if a.node in nodes]
    return (*lives, *records)


agreed = Condition("agreed", _alive_sets_agree)
"""Every running node sees exactly the running lives as ALIVE, hostile nodes aside."""
converged = Condition("converged", _views_agree)
"""And all hold the same lives, verdicts and records."""

CONDITIONS = {condition.__name__: condition for condition in (agreed, converged)}


def differences(world: World) -> str:
    """In a few words who sees what wrongly, for the message of a violation."""
    judged = world.judged
    truth = {host.life.life_id: host for host in judged if host.life is not None}
    found: list[str] = []
    for host in judged:
        seen = {held.life.life_id for held in host.view.members.values() if held.state.value == "ALIVE"}
        missing = [other.name for life, other in truth.items() if life not in seen and other is not host]
        extra = len([life for life in seen if life not in truth]) if world.core is None else 0
        if missing or extra:
            found.append(f"{host.name} misses {','.join(missing[:4]) or 'nobody'} and has {extra} too many")
    hashes: dict[object, int] = {}
    for host in judged:
        view = host.engine.view_hash() if world.core is None else _held_about(host, judged)
        hashes[view] = hashes.get(view, 0) + 1
    sizes = "/".join(str(count) for count in sorted(hashes.values(), reverse=True))
    return "; ".join(found[:4] or ["the ALIVE sets agree"]) + f"; groups of equal views: {sizes}"
