"""Which parts of the protocol are at work: switches for those who compare it with its ancestors.

Everything is on in a node that ships, and nobody but an experiment should turn anything off: with some switches off the
promises of docs/architecture.md do not hold. Each is one branch at one place in the core. With all of Lifeguard's and
all of our own parts off, what is left is SWIM (Das, Gupta, Motivala, DSN 2002) as memberlist runs it.
"""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True):
    """On or off, for each part that a paper compares. All members of a cluster should have the same."""

    suspicion: bool = True
    """SWIM §4.2: whoever does not answer is doubted before it is buried. Off: suspicions have no duration."""
    round_robin: bool = True
    """SWIM §4.3: targets come from a shuffled list. Off: each is drawn from all members (§3.1)."""
    infection: bool = True
    """SWIM §4.1: news travels from member to member. Off: whoever has news sends it to everyone once (SWIM's "Basic",
    which multicasts), and nobody passes it on."""
    refutable_death: bool = True
    """A higher incarnation beats DEAD (memberlist). Off: DEAD is for good, as SWIM's Confirm is (§4.2), and what the
    dead say of others counts no more."""
    lha_probe: bool = True
    """Lifeguard §IV.A: the local health multiplier, and the nacks it needs."""
    lha_suspicion: bool = True
    """Lifeguard §IV.B: accusers shorten the timer from its maximum. Off: it is S_min, and only the first accuser that a
    member hears of is passed on."""
    buddy: bool = True
    """Lifeguard §IV.C: a ping tells a suspect first of all that it is doubted."""
    buddy_always: bool = True
    """So does every other datagram to it, and to a member held DEAD (of our own; nothing without `buddy`)."""
    own_verdict: bool = True
    """Verify before burying: DEAD needs an own probe that failed, and nobody's word kills. Off: the timer is enough,
    and DEAD is gossiped and believed (SWIM's Confirm)."""
    accusation_ages: bool = True
    """The age of an accusation lines up the timers of all members. Off: each timer begins when its member hears."""
    adaptive_timeout: bool = True
    """The direct probe waits for a few measured round trips. Off: always for `probe_timeout`."""
    link_probes: bool = True
    """A probe over a link runs beside the indirect ones (memberlist has one over TCP)."""
    refusals: bool = True
    """A dial answered by RST is evidence that a process has gone."""
    lateness: bool = True
    """Whoever did not run for a while accuses nobody for a period and does not count the time it missed."""
    other_helpers: bool = True
    """Helpers are whoever brought an Ack last, then those not asked in vain before, and twice as many in the last look
    before a burial. Off: k members, drawn anew for each round (SWIM §3.1)."""
    helpers_told: bool = True
    """Whoever is asked to probe a suspect is told of the doubt, and so tells the suspect (Lifeguard's buddy system, for
    helpers). Off: it hears of the doubt by chance."""
    answers: bool = True
    """Whoever says something outdated, or accuses us, is answered at once with the fresher evidence."""
    gossip_ticks: bool = True
    """News also travels in datagrams of its own, each `gossip_interval` (memberlist). Off: piggybacked only (SWIM)."""
    push_pull: bool = True
    """Views are compared with a random member's on a timer (memberlist). Off: only for half a minute after a start."""
    doubts_told_once: bool = True
    """A doubt that both sides of a comparison have is not told again. Off: whoever compares views tells all of its
    doubts, and so becomes an accuser at the other side, whether it has looked or not (memberlist's merge of states)."""
    damping: bool = True
    """Who is doubted or buried and comes back again and again is avoided by calls for a while (RFC 2439)."""
    touch: bool = True
    """A node that most others do not answer prefers, for calls, those that do."""
    recontact: bool = True
    """The dead, the unreached seeds and those of the address book are dialled for ever."""
