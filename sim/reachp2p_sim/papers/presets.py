"""Settings under which the core behaves as its ancestors do, and as it ships.

The baselines run the same core with parts switched off (`core/rules.py`), so a comparison differs in nothing but these.
Lifeguard's configurations are those of its evaluation (arXiv 1707.00788 §V): memberlist with α = 5, β = 6, K = 3,
T = 1 s, a probe time-out of 0.5 s. SWIM there is the same with β = 1, which is a fixed time-out.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol

MEMBERLIST_RULES = Rules(
    buddy_always=False,
    own_verdict=False,
    accusation_ages=False,
    adaptive_timeout=False,
    link_probes=False,
    refusals=False,
    lateness=False,
    other_helpers=False,
    helpers_told=False,
    answers=False,
    doubts_told_once=False,
    damping=False,
    touch=False,
    recontact=False,
)
"""What memberlist has: SWIM with gossip of its own, push-pull that makes accusers of those who compare (`mergeState` in
its state.go), and Lifeguard. Its probe over TCP is left out: none of the experiments loses datagrams only."""
SWIM_RULES = replace(
    MEMBERLIST_RULES,
    lha_probe=False,
    lha_suspicion=False,
    buddy=False,
    gossip_ticks=False,
    push_pull=False,
    refutable_death=False,
)
"""The paper of 2002: piggyback only, and a member that was confirmed faulty does not return in the same life."""


def lifeguard(alpha: float = 5.0, beta: float = 6.0) -> Protocol:
    """All of Lifeguard on memberlist."""
    return Protocol(
        suspicion_alpha=alpha,
        suspicion_beta=beta,
        retransmit_multiplier=2,  # 10 sends at n = 128; memberlist's 4·⌈log10(n + 1)⌉ are 12
        gossip_to_dead=30.0,
        successor_links=0,
        rules=MEMBERLIST_RULES,
    )


def _with(rule: str | None, alpha: float, beta: float) -> Protocol:
    parts = ("lha_probe", "lha_suspicion", "buddy")
    rules = replace(MEMBERLIST_RULES, **{part: part == rule for part in parts})
    return replace(lifeguard(alpha, beta), rules=rules)


def swim(alpha: float = 5.0) -> Protocol:
    """Lifeguard's baseline: memberlist without any part of Lifeguard."""
    return _with(None, alpha, 1.0)


def lha_probe(alpha: float = 5.0) -> Protocol:
    """SWIM and the local health multiplier with its nacks."""
    return _with("lha_probe", alpha, 1.0)


def lha_suspicion(alpha: float = 5.0, beta: float = 6.0) -> Protocol:
    """SWIM and suspicion time-outs that shrink with each independent accuser."""
    return _with("lha_suspicion", alpha, beta)


def buddy(alpha: float = 5.0) -> Protocol:
    """SWIM, and whoever is suspected is told first."""
    return _with("buddy", alpha, 1.0)


def reachp2p() -> Protocol:
    """What ships."""
    return Protocol()


def swim_2002(probe_interval: float = 1.0, indirect_probes: int = 1) -> Protocol:
    """SWIM as its paper describes and measures it (§4, §5). Its suspicion time-out of 3·⌈ln(n + 1)⌉ periods is set by
    the experiment, which knows n."""
    return Protocol(
        probe_interval=probe_interval,
        probe_timeout=probe_interval / 2,
        indirect_probes=indirect_probes,
        gossip_to_dead=0.0,
        successor_links=0,
        rules=SWIM_RULES,
    )


CONFIGURATIONS: dict[str, Callable[[], Protocol]] = {
    "SWIM": swim,
    "LHA-Probe": lha_probe,
    "LHA-Suspicion": lha_suspicion,
    "Buddy": buddy,
    "Lifeguard": lifeguard,
}
"""The rows of Lifeguard's Tables IV to VI."""
