"""How long things may take: bounds as functions of the group and the settings. All in seconds."""

from __future__ import annotations

from math import ceil, log, log2, log10

from reachp2p.core.settings import Protocol


def dissemination(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """D·T: lg n + ln n periods, half as much again above 10 % loss (push epidemics, Demers et al. §1.4)."""
    n = max(n, 2)
    periods = log2(n) + log(n)
    return periods * (1.5 if loss > 0.1 else 1.0) * protocol.probe_interval


def suspicion_minimum(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """S_min = α·max(1, log10 n)·T, whatever the loss."""
    return protocol.suspicion_alpha * max(1.0, log10(max(n, 1))) * protocol.probe_interval


def suspicion_maximum(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """S_max = β·S_min, whatever the loss."""
    return protocol.suspicion_beta * suspicion_minimum(n, protocol)


def push_pull(n: int, protocol: Protocol) -> float:
    """P, scaled above 32 members as memberlist scales it."""
    scale = ceil(log2(n) - log2(32)) + 1 if n > 32 else 1
    return protocol.push_pull_interval * scale


def healing(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """X = R + P + 1.5·D·T + S_max: from the end of the last fault to equal views."""
    return (
        protocol.recontact_interval
        + push_pull(n, protocol)
        + 1.5 * dissemination(n, protocol, loss)
        + suspicion_maximum(n, protocol)
    )


def completeness(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """From a crash to DEAD in every connected live view, whatever the phase: (2n−1)·T·(LHM+1) + S_max + D·T.

    The worst case of round-robin probing with every prober at its worst health; a median is a hundred times shorter.
    """
    probing = (2 * n - 1) * protocol.probe_interval * (protocol.health_max + 1)
    return probing + suspicion_maximum(n, protocol) + dissemination(n, protocol, loss)


def detection_p99(n: int, protocol: Protocol, loss: float = 0.0) -> float:
    """The same as a p99 over seeds when no node is degraded: 5·T + S_min + D·T (I-COMP)."""
    return 5 * protocol.probe_interval + suspicion_minimum(n, protocol) + dissemination(n, protocol, loss)


BUDGETS = {
    "dissemination": dissemination,
    "suspicion-minimum": suspicion_minimum,
    "suspicion-maximum": suspicion_maximum,
    "healing": healing,
    "completeness": completeness,
    "detection-p99": detection_p99,
}
"""By the names that scenario files use."""
