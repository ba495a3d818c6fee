"""What a recording says when it is looked at afterwards: detections, false suspicions, episodes, totals.

Nothing here watches a run; everything is worked out once from what the recorder kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from reachp2p.core.ids import Life
from reachp2p_sim.recording.agreement import Settled
from reachp2p_sim.recording.beliefs import Change
from reachp2p_sim.recording.processes import ProcessSpan
from reachp2p_sim.recording.recorder import Recorder
from reachp2p_sim.recording.travel import Budget
from reachp2p_sim.steps.paths import AllowDials, EndWeather, Heal, Release
from reachp2p_sim.steps.processes import AddNodes, Restart, Resume, Start

HEALING = (Heal, Release, Resume, EndWeather, AllowDials)
STARTING = (AddNodes, Restart, Start)
GRACE = 1.0
"""Seconds after a fault has ended in which a suspicion is still put down to it: probes under way when it ended."""


@dataclass(slots=True)
class Detection:
    """How a process that ended without a word was noticed. Times are seconds after its end."""

    host: int
    at: float
    others: int
    """Processes that ran elsewhere at that time, and could notice."""
    share: float = 1.0
    """How many of its probes a member spends on what could notice: 1, or the part across a cut."""
    first_suspect: float | None = None
    dead: list[tuple[float, int]] = field(default_factory=list)
    """Each view's verdict: seconds after the end, and whose."""
    back_at: float = inf
    """When a process ran there again, in run time."""


@dataclass(slots=True)
class Episode:
    """From the first doubt about a machine until nobody doubts it, or until it is given up. Times are run time."""

    subject: int
    life: Life
    """The life that was doubted first."""
    began_at: float
    first_by: int
    reason: str
    suspects: int = 0
    """Views that held it SUSPECT."""
    dead: list[Change] = field(default_factory=list)
    false_suspects: int = 0
    """Views that doubted it though nothing had been done to it or to the path between the two."""
    false_dead: int = 0
    alive_again: list[Change] = field(default_factory=list)
    ended_at: float | None = None


class Findings:
    """Worked out of one recording."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.world = recorder.world
        self._starts: dict[int, list[float]] = defaultdict(list)
        for process in recorder.processes.spans:
            self._starts[process.host].append(process.began_at)
        for starts in self._starts.values():
            starts.sort()
        self.detections = [self._detection(p) for p in recorder.processes.spans if p.how == "crash"]
        self.episodes = self._episodes()
        self.suspicions = sum(e.suspects for e in self.episodes)
        self.verdicts = sum(len(e.dead) for e in self.episodes)
        self.false_suspicions = sum(e.false_suspects for e in self.episodes)
        self.false_verdicts = sum(e.false_dead for e in self.episodes)

    # Detections

    def _detection(self, process: ProcessSpan) -> Detection:
        assert process.ended_at is not None, "it has ended"
        later = [at for at in self._starts[process.host] if at > process.began_at]
        detection = Detection(process.host, process.ended_at, process.others, back_at=min(later, default=inf))
        given: set[int] = set()
        for change in self.recorder.beliefs.changes:
            if change.subject != process.host or not process.ended_at <= change.at < detection.back_at:
                continue
            if self._is_newcomer(change, process.ended_at):
                continue
            after = change.at - process.ended_at
            if change.new in ("SUSPECT", "DEAD") and detection.first_suspect is None:
                detection.first_suspect = after
            if change.new == "DEAD" and change.observer not in given:
                given.add(change.observer)
                detection.dead.append((after, change.observer))
        return detection

    def _is_newcomer(self, change: Change, since: float) -> bool:
        """Whether the observer's process began later than this: it did not lose the subject, it was told."""
        starts = self._starts[change.observer]
        position = bisect_right(starts, change.at)
        return position > 0 and starts[position - 1] > since

    def cut_off(self) -> list[Detection]:
        """How the two sides of the first lasting cut noticed that they lost each other: one entry for each machine."""
        history = self.world.history
        both_ways = {(c.began_at, c.sources, c.targets) for c in history.cuts}
        cut = next(
            (
                c
                for c in history.cuts
                if (c.began_at, c.targets, c.sources) in both_ways
                and c.ended_at - c.began_at > 2 * self.world.protocol.probe_interval
            ),
            None,
        )
        if cut is None:
            return []
        running = {
            p.host for p in self.recorder.processes.spans if p.began_at <= cut.began_at < (p.ended_at or inf)
        }
        found: dict[int, Detection] = {}
        for host in sorted(running):
            side, other = (
                (cut.sources, cut.targets) if cut.sources >> host & 1 else (cut.targets, cut.sources)
            )
            if not side >> host & 1:
                continue
            others = sum(other >> index & 1 for index in running)
            found[host] = Detection(host, cut.began_at, others, others / max(len(running) - 1, 1))
        for change in self.recorder.beliefs.changes:
            detection = found.get(change.subject)
            if detection is None or not cut.began_at <= change.at < cut.ended_at:
                continue
            if not (cut.sources >> change.subject ^ cut.sources >> change.observer) & 1:
                continue
            after = change.at - cut.began_at
            if change.new in ("SUSPECT", "DEAD") and detection.first_suspect is None:
                detection.first_suspect = after
            if change.new == "DEAD":
                detection.dead.append((after, change.observer))
        return list(found.values())

    # Episodes

    def _episodes(self) -> list[Episode]:
        episodes: list[Episode] = []
        open_: dict[int, Episode] = {}
        doubters: dict[int, set[int]] = defaultdict(set)
        ends = sorted((p.ended_at, p.host) for p in self.recorder.processes.spans if p.ended_at is not None)
        for change in self.recorder.beliefs.changes:
            while ends and ends[0][0] <= change.at:
                ended_at, observer = ends.pop(0)
                _forget(observer, ended_at, doubters, open_)
            subject = change.subject
            if subject < 0:
                continue
            if change.new in ("SUSPECT", "DEAD"):
                episode = open_.get(subject)
                if episode is None:
                    episode = Episode(subject, change.life, change.at, change.observer, change.reason)
                    open_[subject] = episode
                    episodes.append(episode)
                self._doubted(episode, change)
                doubters[subject].add(change.observer)
            else:
                episode = open_.get(subject)
                if episode is None:
                    continue
                doubted = change.observer in doubters[subject]
                doubters[subject].discard(change.observer)
                if change.new == "ALIVE" and doubted:
                    episode.alive_again.append(change)
                if not doubters[subject]:
                    episode.ended_at = change.at
                    del open_[subject]
        return episodes

    def _doubted(self, episode: Episode, change: Change) -> None:
        if self._is_newcomer(change, episode.began_at):
            return
        is_false = not self.excused(change)
        if change.new == "SUSPECT":
            episode.suspects += 1
            episode.false_suspects += is_false
        elif change.old != "DEAD":
            episode.dead.append(change)
            episode.false_dead += is_false

    def excused(self, change: Change) -> bool:
        """Whether a fault explains a doubt: one of the two was away, or some path of the subject was cut or lossy.

        Any path of the subject, since an accusation may come from a member that could not reach it.
        """
        history = self.world.history
        before = change.at - 4 * self.world.protocol.probe_interval - GRACE

        def overlaps(began_at: float, ended_at: float) -> bool:
            return began_at <= change.at and ended_at >= before

        for host in (change.subject, change.observer):
            if any(overlaps(i.began_at, i.ended_at) for i in history.absences.get(host, ())):
                return True
        bit = 1 << change.subject
        if any((c.sources | c.targets) & bit and overlaps(c.began_at, c.ended_at) for c in history.cuts):
            return True
        return any(w.loss > 0 and overlaps(w.began_at, w.ended_at) for w in history.weather)

    # Totals

    def summary(self) -> dict[str, Any]:
        """The numbers of the recording, for summary.json. Times in seconds, sizes in bytes."""
        recorder, world = self.recorder, self.world
        firsts = [d.first_suspect for d in self.detections if d.first_suspect is not None]
        dead = [after for d in self.detections for after, _ in d.dead]
        seconds = max(world.now, 1e-9)
        count = max(len(recorder.travel.by_node), 1)
        return {
            "suspicions": self.suspicions,
            "false_suspicions": self.false_suspicions,
            "verdicts": self.verdicts,
            "false_verdicts": self.false_verdicts,
            "first_suspicion_median": _median(firsts),
            "verdict_median": _median(dead),
            "verdict_last": _rounded(max(dead, default=None)),
            "detections": [
                {
                    "node": self.name(d.host),
                    "at": round(d.at, 6),
                    "first_suspect": _rounded(d.first_suspect),
                    "first_dead": _rounded(min((after for after, _ in d.dead), default=None)),
                    "last_dead": _rounded(max((after for after, _ in d.dead), default=None)),
                    "verdicts": len(d.dead),
                    "others": d.others,
                }
                for d in self.detections
            ],
            "settled": [
                {
                    "at": round(s.at, 6),
                    "after": round(s.at - s.disturbed_at, 6),
                    "after_step": round(s.at - self.settling_from(s), 6),
                    "budget": round(s.budget, 3),
                }
                for s in recorder.agreement.settled
            ],
            "conflicts": [
                {
                    "node": recorder.node_name(c.node),
                    "lives": [
                        {
                            "host": self.name(s.host),
                            "epoch": s.life.epoch,
                            "life_id": s.life.life_id.hex(),
                            "began_at": round(s.began_at, 6),
                            "ended_at": _rounded(s.ended_at),
                            "ended": s.how,
                        }
                        for s in c.lives
                    ],
                    "winner": None if c.winner is None else self.name(c.winner.host),
                    "winner_epoch": None if c.winner is None else c.winner.life.epoch,
                    "met_at": _rounded(c.met_at),
                    "time_to_agree": _rounded(c.time_to_agree),
                }
                for c in recorder.lives.conflicts
            ],
            "by_kind": {
                kind: {"count": b.count, "bytes": b.size}
                for kind, b in sorted(recorder.travel.by_kind.items(), key=_by_size)
            },
            "by_node": {
                self.name(index): {
                    "datagrams": b.datagrams.count,
                    "frames": b.frames.count,
                    "bytes": b.datagrams.size + b.frames.size,
                    "received": b.received,
                    "signature_checks": b.signature_checks,
                }
                for index, b in sorted(recorder.travel.by_node.items())
            },
            "datagrams_per_node_second": round(world.network.sent / count / seconds, 4),
            "bytes_per_node_second": round(
                (world.network.sent_bytes + world.links.frame_bytes_sent) / count / seconds, 1
            ),
            "signature_checks": sum(b.signature_checks for b in recorder.travel.by_node.values()),
            "routes_equal_lowest": min((row[5] for row in recorder.agreement.samples.rows), default=None),
            "routes_right_at_end": recorder.agreement.samples.rows[-1][6]
            if recorder.agreement.samples.rows
            else None,
            "messages_kept": sum(len(w.messages) for w in recorder.travel.windows),
            "not_kept": dict(recorder.overflow),
        }

    def name(self, index: int) -> str:
        """The name of a host by its number."""
        return self.world.nodes[index].name if index >= 0 else "stranger"

    def down(self, index: int) -> list[tuple[float, float]]:
        """When a host had no running process, from its first start on."""
        spans: list[tuple[float, float]] = []
        ended_at: float | None = None
        for process in sorted(
            (p for p in self.recorder.processes.spans if p.host == index), key=lambda p: p.began_at
        ):
            if ended_at is not None:
                spans.append((ended_at, process.began_at))
            ended_at = process.ended_at
        if ended_at is not None:
            spans.append((ended_at, inf))
        return spans

    def settling_from(self, settled: Settled) -> float:
        """From when a reader counts the time until views were equal again.

        From the last heal since they had been equal; if there was none, from the last start or restart, or else from
        the first step that disturbed them. A cut is noticed late, so without any such step: from the last before.
        """
        before = [p for p in self.world.performed if p.step.disturbs and p.at < settled.at]
        since = [p for p in before if p.at >= settled.equal_until]
        for kinds in (HEALING, STARTING):
            mends = [p.at for p in since if isinstance(p.step, kinds)]
            if mends:
                return mends[-1]
        return since[0].at if since else before[-1].at if before else 0.0

    def running_at(self, at: float) -> int:
        """How many processes ran at a time."""
        rows = self.recorder.agreement.samples.rows
        position = bisect_right(rows, at, key=lambda row: row[0])
        return int(rows[max(position - 1, 0)][1]) if rows else 0


def _forget(observer: int, at: float, doubters: dict[int, set[int]], open_: dict[int, Episode]) -> None:
    """A view is gone with its process, and its doubts with it."""
    for subject, views in doubters.items():
        views.discard(observer)
        if not views and subject in open_:
            open_.pop(subject).ended_at = at


def _by_size(item: tuple[str, Budget]) -> int:
    return -item[1].size


def _median(values: list[float]) -> float | None:
    return round(median(values), 6) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
