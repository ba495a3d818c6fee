"""Rare branches of the core, and how often a run went through them.

A campaign that never saw a refutation says nothing about refutations. So every run counts its visits to the branches
that faults alone reach, over all nodes and all their processes, and a campaign fails if one stays too rare. The core's
own counters tell: what a researcher can look at here an operator can look at too.
"""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.world import World

BRANCHES: dict[str, tuple[str, ...]] = {
    "refutation": ("refutations",),
    "late-ack-after-nack": ("probe.ack_after_nack",),
    "tombstone-hit": ("tombstones.hit",),
    "fence": ("life.fenced",),
    "equivocation-proof": ("membership.equivocation", "registry.equivocation"),
    "push-pull-heal": ("sync.healed",),
    "refusal": ("refusal.own",),
    "amnesia-outbid": ("life.outbid",),
}
"""Each branch with the counters of the core that tell of it."""
_COUNTED = tuple(name for names in BRANCHES.values() for name in names)


class Coverage:
    """Sums up the counters of every process of a run, the ended ones as they end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ended = dict.fromkeys(_COUNTED, 0)
        world.on_process.append(self._process_changed)

    def _process_changed(self, host: Host, what: str) -> None:
        if what == "ended":
            self._add(host, self._ended)

    @staticmethod
    def _add(host: Host, sums: dict[str, int]) -> None:
        diagnostics = host.engine.diagnostics()
        for name in _COUNTED:
            sums[name] += diagnostics.get(name, 0)

    def branches(self) -> dict[str, int]:
        """How often each branch was taken so far."""
        sums = dict(self._ended)
        for host in self._world.running:
            self._add(host, sums)
        return {branch: sum(sums[name] for name in names) for branch, names in BRANCHES.items()}

    def steps(self) -> dict[str, int]:
        """How many steps of each kind were performed, by their words."""
        counts: dict[str, int] = {}
        for performed in self._world.performed:
            word = performed.step.word()
            counts[word] = counts.get(word, 0) + 1
        return dict(sorted(counts.items()))
