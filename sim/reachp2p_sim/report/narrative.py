"""What happened, in sentences: chapters that begin with a fault and tell what came of it.

Each sentence is made of numbers that the recording holds; nothing is guessed. Times are told from the fault that a
reader would count from: the end of a process for its detection, the heal for the agreement after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from operator import attrgetter
from statistics import median

from reachp2p_sim.recording.agreement import Settled
from reachp2p_sim.recording.beliefs import Change
from reachp2p_sim.recording.findings import Episode, Findings
from reachp2p_sim.recording.lives import LifeSpan
from reachp2p_sim.report import words
from reachp2p_sim.report.chapter_titles import acts

MOMENTS_MAX = 240
QUIET_MIN = 3
"""From so many acts in a row on that nothing came of, they are told together."""
SINGLE_SUBJECTS_MAX = 3
"""Up to so many subjects get a sentence each; more are told together."""


@dataclass(slots=True)
class Moment:
    """One sentence. `kind` chooses its mark: doubt, verdict, again, equal, conflict, broken, plain."""

    at: float
    kind: str
    text: str


@dataclass(slots=True)
class Chapter:
    """A fault, or several at once, and what followed until the next."""

    at: float
    title: str
    kind: str
    """`fault`, `mend` (the end of one) or `start`."""
    short: str = "this"
    """How a sentence refers to it."""
    moments: list[Moment] = field(default_factory=list)


@dataclass(slots=True)
class Narrative:
    """All chapters in order. `left_out` moments did not fit."""

    chapters: list[Chapter]
    left_out: int = 0


def tell(findings: Findings) -> Narrative:
    """The story of a run."""
    chapters = [Chapter(act.at, act.title, act.kind, act.short) for act in acts(findings)]
    chapters = chapters or [Chapter(0.0, "Nothing was done to the world", "start")]
    moments = [*_equal(findings, chapters), *_conflicts(findings), *_said(findings), *_end(findings)]
    for number in range(len(chapters)):
        moments += _doubts(findings, chapters, number)
    moments.sort(key=lambda moment: moment.at)
    kept = moments[:MOMENTS_MAX]
    for moment in kept:
        early = (
            1e-6 if moment.kind == "equal" else 0.0
        )  # seen at the moment of the next act, and true before it
        _cause(chapters, moment.at - early).moments.append(moment)
    return Narrative(_shortened(chapters), len(moments) - len(kept))


def _shortened(chapters: list[Chapter]) -> list[Chapter]:
    """Acts that nothing came of are told together, if there are several in a row."""
    told: list[Chapter] = []
    for has_moments, group in groupby(chapters, key=lambda chapter: bool(chapter.moments)):
        quiet = list(group)
        if has_moments or len(quiet) < QUIET_MIN:
            told += quiet
            continue
        titles = list(dict.fromkeys(chapter.title for chapter in quiet))
        shown = "; ".join(titles[:3]) + (f"; {len(titles) - 3} acts more" if len(titles) > 3 else "")
        if len(quiet) > len(titles):
            shown += f" ({len(quiet)} times in turn, until {words.moment(quiet[-1].at)} s)"
        told.append(Chapter(quiet[0].at, shown, quiet[0].kind, quiet[-1].short))
    return told


# Doubts and verdicts


@dataclass(slots=True, frozen=True)
class _Turn:
    """A view that changed its mind about an episode's subject."""

    change: Change
    episode: Episode

    @property
    def at(self) -> float:
        """When."""
        return self.change.at

    @property
    def observer(self) -> int:
        """Whose view."""
        return self.change.observer


def _doubts(findings: Findings, chapters: list[Chapter], number: int) -> list[Moment]:
    """What a chapter's faults, and those before it, made views believe within the chapter."""
    began_at = chapters[number].at
    until = chapters[number + 1].at if number + 1 < len(chapters) else inf
    if number == 0:
        began_at = -1.0
    moments: list[Moment] = []
    begun = [e for e in findings.episodes if began_at <= e.began_at < until]
    if len(begun) <= SINGLE_SUBJECTS_MAX:
        moments += [_doubt(findings, episode, chapters) for episode in begun]
    else:
        moments.append(_many_doubts(findings, begun, chapters[number]))
    for pick, one, many in (
        (attrgetter("dead"), _verdict, _many_verdicts),
        (attrgetter("alive_again"), _again, _many_again),
    ):
        turns = [
            _Turn(change, episode)
            for episode in findings.episodes
            for change in pick(episode)
            if began_at <= change.at < until
        ]
        turns.sort(key=attrgetter("at"))
        by_subject: dict[int, list[_Turn]] = {}
        for turn in turns:
            by_subject.setdefault(turn.episode.subject, []).append(turn)
        if len(by_subject) <= SINGLE_SUBJECTS_MAX:
            moments += [one(findings, same, chapters) for same in by_subject.values()]
        else:
            moments.append(many(findings, turns, chapters))
    return moments


def _doubt(findings: Findings, episode: Episode, chapters: list[Chapter]) -> Moment:
    subject, by = findings.name(episode.subject), findings.name(episode.first_by)
    origin, what = _origin(findings, episode, chapters)
    reason = f" ({episode.reason})" if episode.reason else ""
    doubters = max(episode.suspects, len({change.observer for change in episode.dead}))
    text = f"{by} is the first to doubt {subject}{reason}, {words.seconds(episode.began_at - origin)} after {what}"
    if doubters > 1:
        text += f"; {words.plural(doubters, 'view')} in all come to doubt it"
    return Moment(episode.began_at, "doubt", text + _false([episode]) + ".")


def _many_doubts(findings: Findings, episodes: list[Episode], chapter: Chapter) -> Moment:
    first = episodes[0]
    subjects = words.names(sorted({findings.name(e.subject) for e in episodes}))
    text = (
        f"{subjects} come under doubt ({words.plural(sum(e.suspects for e in episodes), 'suspicion')}): first "
        f"{findings.name(first.subject)}, by {findings.name(first.first_by)}, "
        f"{words.seconds(first.began_at - chapter.at)} after {chapter.short}"
    )
    return Moment(first.began_at, "doubt", text + _false(episodes) + ".")


def _false(episodes: list[Episode]) -> str:
    false = sum(e.false_suspects + e.false_dead for e in episodes)
    return (
        f". {words.plural(false, 'doubt is', 'doubts are')} false: nothing was wrong at either end"
        if false
        else ""
    )


def _verdict(findings: Findings, turns: list[_Turn], chapters: list[Chapter]) -> Moment:
    first = turns[0]
    subject, by = findings.name(first.episode.subject), findings.name(first.observer)
    origin, what = _origin(findings, first.episode, chapters)
    times = [turn.at - origin for turn in turns]
    is_down = any(
        began_at <= first.at < ended_at for began_at, ended_at in findings.down(first.episode.subject)
    )
    others = findings.running_at(first.at) - (not is_down)
    views = "all" if len(times) >= others else f"{len(times)} of the"
    after = f"{words.seconds(times[0])} after {what}"
    if len(times) <= 3:
        by = words.names([findings.name(turn.observer) for turn in turns])
        return Moment(first.at, "verdict", f"{subject} is DEAD for {by}, {after}.")
    text = (
        f"{subject} is DEAD for {by}, {after}; half of the verdicts are there by {words.seconds(median(times))}, the "
        f"last by {words.seconds(times[-1])}: {views} {words.plural(others, 'running view')}."
    )
    return Moment(first.at, "verdict", text)


def _many_verdicts(findings: Findings, turns: list[_Turn], chapters: list[Chapter]) -> Moment:
    origin = _cause(chapters, min(turn.episode.began_at for turn in turns))
    times = [turn.at - origin.at for turn in turns]
    subjects = len({turn.episode.subject for turn in turns})
    return Moment(
        turns[0].at,
        "verdict",
        f"{words.plural(len(turns), 'verdict')} of DEAD about {words.plural(subjects, 'node')}: the first "
        f"{words.seconds(times[0])} after {origin.short}, half of them by {words.seconds(median(times))}, the last "
        f"by {words.seconds(times[-1])}.",
    )


def _again(findings: Findings, turns: list[_Turn], chapters: list[Chapter]) -> Moment:
    first = turns[0]
    change = first.change
    is_new = change.life != first.episode.life
    how = f"is back as epoch {change.life.epoch}" if is_new else f"refutes (incarnation {change.incarnation})"
    text = f"{findings.name(change.subject)} {how}: {findings.name(first.observer)} holds it ALIVE first"
    if len(turns) > 1:
        text += f", the last of {len(turns)} views {words.seconds(turns[-1].at - first.at)} later"
    return Moment(first.at, "again", text + ".")


def _many_again(findings: Findings, turns: list[_Turn], chapters: list[Chapter]) -> Moment:
    subjects = len({turn.episode.subject for turn in turns})
    chapter = _cause(chapters, turns[0].at)
    return Moment(
        turns[0].at,
        "again",
        f"{words.plural(subjects, 'node')} that had been doubted are ALIVE again in "
        f"{words.plural(len(turns), 'view')}: the first {words.seconds(turns[0].at - chapter.at)} after "
        f"{chapter.short}, the last {words.seconds(turns[-1].at - chapter.at)}.",
    )


def _origin(findings: Findings, episode: Episode, chapters: list[Chapter]) -> tuple[float, str]:
    """From when a reader counts: the end of the subject's process, else the fault before the first doubt."""
    ends = [
        d.at
        for d in findings.detections
        if d.host == episode.subject and d.at <= episode.began_at < d.back_at
    ]
    if ends:
        return ends[-1], "its process was gone"
    chapter = _cause(chapters, episode.began_at)
    return chapter.at, chapter.short


def _cause(chapters: list[Chapter], at: float) -> Chapter:
    return next((c for c in reversed(chapters) if c.at <= at), chapters[0])


# Agreement, conflicts, endings


def _equal(findings: Findings, chapters: list[Chapter]) -> list[Moment]:
    moments: list[Moment] = []
    starting_until = next((c.at for c in chapters if c.kind != "start"), inf)
    settled = findings.recorder.agreement.settled
    early = [s for s in settled if s.at <= starting_until]
    for one in [*early[-1:], *(s for s in settled if s.at > starting_until)]:
        since = _since(findings, chapters, one, is_start=one.at <= starting_until)
        nodes = findings.running_at(one.at)
        text = f"All {nodes} views are equal, {since}; the budget is {words.seconds(one.budget)}."
        moments.append(Moment(one.at, "equal", text))
    return moments


def _since(findings: Findings, chapters: list[Chapter], one: Settled, is_start: bool) -> str:
    """Since the act that it is counted from, and since the last process that came or went, if that was later."""
    last = words.seconds(one.at - one.disturbed_at)
    chapter = _cause(chapters, findings.settling_from(one))
    after = f"{words.seconds(one.at - chapter.at)} after {chapter.short}"
    if is_start or one.disturbed_at - chapter.at > 1e-6:
        turns = ((p.host, p.began_at, p.ended_at) for p in findings.recorder.processes.spans)
        for host, began_at, ended_at in turns:
            if ended_at is not None and abs(ended_at - one.disturbed_at) < 1e-6:
                return f"{last} after {findings.name(host)} stopped" + ("" if is_start else f", {after}")
            if abs(began_at - one.disturbed_at) < 1e-6:
                return f"{last} after {findings.name(host)} started" + ("" if is_start else f", {after}")
    return after if not is_start else f"{last} after the last change"


def _conflicts(findings: Findings) -> list[Moment]:
    moments: list[Moment] = []
    for conflict in findings.recorder.lives.conflicts:
        name = findings.recorder.node_name(conflict.node) or "a node"
        if conflict.is_of_two:
            rivals = " and ".join(
                f"epoch {span.life.epoch} on {findings.name(span.host)}" for span in conflict.lives[:4]
            )
            text = f"Two lives of {name}'s key run at once: {rivals}."
            moments.append(Moment(conflict.opened_at, "conflict", text))
        for span in conflict.lives:
            moments += _first_seen(findings, span, name)
        for at, host, text in conflict.events:
            moments.append(Moment(at, "conflict", f"{findings.name(host)} {text}."))
        if conflict.winner is not None and conflict.agreed_at is not None and len(conflict.lives) > 1:
            winner = conflict.winner
            moments.append(
                Moment(
                    conflict.agreed_at,
                    "conflict",
                    f"Epoch {winner.life.epoch} on {findings.name(winner.host)} has won: every running view holds it, "
                    f"{words.seconds(conflict.time_to_agree)} after "
                    f"{'the two first met' if conflict.is_of_two else 'it first heard of a higher epoch'}.",
                )
            )
    return moments


def _first_seen(findings: Findings, span: LifeSpan, name: str) -> list[Moment]:
    """When another node first held a life that came to a key already in use."""
    first = next(
        (
            change
            for change in findings.recorder.beliefs.changes
            if change.life == span.life and change.subject == span.host and change.new == "ALIVE"
        ),
        None,
    )
    if first is None or any(span.began_at <= s.began_at for s in _others(findings, span)):
        return []
    text = (
        f"{findings.name(first.observer)} is the first to hold {name} under epoch {span.life.epoch}, that of "
        f"{findings.name(span.host)}, {words.seconds(first.at - span.began_at)} after that life began."
    )
    return [Moment(first.at, "conflict", text)]


def _others(findings: Findings, span: LifeSpan) -> list[LifeSpan]:
    return [s for s in findings.recorder.lives.spans if s.node == span.node and s is not span]


_SAYINGS: dict[str, Callable[[str], str]] = {
    "DrainFinished": lambda name: f"{name} has said goodbye and ends.",
    "StorageFailed": lambda name: (
        f"{name} could not write to its disk; what was to follow that write was not sent."
    ),
    "Lagged": lambda name: f"{name} notices that its timers fired late and doubts itself first.",
    "NodeIsolated": lambda name: f"{name} notices that nobody answers it any more.",
    "IsolationEnded": lambda name: f"{name} is answered again.",
    "NameShared": lambda name: f"{name} sees two keys under one display name.",
}


def _said(findings: Findings) -> list[Moment]:
    moments: list[Moment] = []
    told: dict[tuple[str, int], float] = {}
    for said in findings.recorder.said:
        sentence = _SAYINGS.get(said.kind)
        key = (said.kind, said.host)
        if sentence is None or said.at - told.get(key, -60.0) < 60.0:
            continue
        told[key] = said.at
        moments.append(Moment(said.at, "plain", sentence(findings.name(said.host))))
    return moments


def _end(findings: Findings) -> list[Moment]:
    result = findings.recorder.result
    assert result is not None, "a report is made of a run that has ended"
    at = findings.world.now
    if result.violation is not None:
        broken = result.violation
        where = f" at {broken['node']}" if broken["node"] else ""
        return [Moment(at, "broken", f"{broken['checker']} is broken{where}: {broken['message']}.")]
    if result.error is not None:
        return [Moment(at, "broken", f"The core raised: {result.error.strip().splitlines()[-1]}")]
    return [Moment(at, "plain", f"The story ends with {findings.running_at(at)} nodes running.")]
