"""What was done to the world, in words: the titles of the chapters of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.report import words
from reachp2p_sim.steps import Step
from reachp2p_sim.steps.eavesdropping import ListenIn, Replay
from reachp2p_sim.steps.hostility import TurnHonest, TurnHostile
from reachp2p_sim.steps.machines import CrashAtWrite, SetClock, SetDisk, StepClock, StrobeClock
from reachp2p_sim.steps.paths import (
    AllowDials,
    BlockDials,
    EndWeather,
    Flap,
    Heal,
    Hold,
    Partition,
    PartitionShape,
    PathWeather,
    Release,
    SetName,
    Swizzle,
    Translate,
    Weather,
    WeatherBetween,
)
from reachp2p_sim.steps.processes import (
    AddNodes,
    Block,
    Clone,
    Crash,
    Leave,
    Pause,
    Restart,
    Resume,
    SaveDisk,
    ShowName,
    SlowDown,
    Start,
    Upgrade,
)
from reachp2p_sim.steps.story import DeclareCore, Expect, Run
from reachp2p_sim.steps.work import (
    ApplyRules,
    CallAtRate,
    CallLoop,
    ChangeHandlers,
    OfferAgent,
    WithdrawAgent,
)
from reachp2p_sim.world.world import Performed

TOGETHER = 0.05
"""Acts less than this many seconds apart are told as one."""
QUIET = (
    Run,
    Expect,
    DeclareCore,
    CallAtRate,
    CallLoop,
    OfferAgent,
    WithdrawAgent,
    SaveDisk,
    ShowName,
    SetName,
    ListenIn,
)
"""Steps that disturb nobody: they begin no chapter."""
MENDING = (Heal, Release, Resume, Restart, Start, EndWeather, AllowDials, TurnHonest)


@dataclass(slots=True)
class Act:
    """One or more steps at one time."""

    at: float
    title: str
    kind: str
    """`fault`, `mend` (only ends of faults) or `start` (only first starts)."""
    short: str
    """How a sentence refers to it: `after the heal`."""


def acts(findings: Findings) -> list[Act]:
    """All acts of a run, in order."""
    groups: list[list[Performed]] = []
    for performed in findings.world.performed:
        if isinstance(performed.step, QUIET):
            continue
        if groups and performed.at - groups[-1][-1].at <= TOGETHER:
            groups[-1].append(performed)
        else:
            groups.append([performed])
    return [_act(group) for group in groups]


def _act(group: list[Performed]) -> Act:
    steps = [performed.step for performed in group]
    sentences = list(dict.fromkeys(_sentences(steps)))
    shown = sentences if len(sentences) <= 5 else [*sentences[:4], f"{len(sentences) - 4} acts more"]
    title = "; ".join(shown)
    first = title.split(" ")[0]
    if not any(character.isdigit() for character in first):
        title = title[0].upper() + title[1:]
    if all(isinstance(step, AddNodes) for step in steps):
        kind = "start"
    elif all(
        isinstance(step, MENDING) or (isinstance(step, Weather) and not step.changes) or _is_cure(step)
        for step in steps
    ):
        kind = "mend"
    else:
        kind = "fault"
    known = {"cure" if _is_cure(step) else step.word() for step in steps}
    short = next((short for word, short in _SHORT.items() if word in known), "this")
    return Act(group[0].at, title, kind, short)


_SHORT = {
    "partition": "the cut",
    "partition-shape": "the cut",
    "swizzle": "the swizzling began",
    "flap": "the flapping began",
    "hold": "the hold",
    "heal": "the heal",
    "release": "the release",
    "crash": "the crash",
    "pause": "the pause began",
    "block": "the block began",
    "slow-down": "the slowness began",
    "turn-hostile": "the harm began",
    "cure": "the cure",
    "replay": "the replay",
    "resume": "the pause ended",
    "restart": "the restart",
    "clone": "the clone appeared",
    "weather": "the weather changed",
    "path-weather": "the weather changed",
    "weather-between": "the weather changed",
    "end-weather": "the weather ended",
    "block-dials": "dials were blocked",
    "leave": "the leave",
    "add-nodes": "the start",
    "start": "the start",
}


def _is_cure(step: Step) -> bool:
    """Whether a step only takes back what another did to a machine: its clock, its disk, its processor."""
    match step:
        case SlowDown(service_time=0.0) | StrobeClock(by=0.0) | SetClock(rate=1.0, wall_rate=1.0):
            return True
        case SetDisk():
            return step == SetDisk(hosts=step.hosts)
        case _:
            return False


def _sentences(steps: list[Step]) -> list[str]:
    """A clause for each step; several cures of the same machines are one."""
    cured: dict[Any, int] = {}
    for step in steps:
        if _is_cure(step):
            hosts = getattr(step, "hosts", ())
            cured[hosts] = cured.get(hosts, 0) + 1
    told: list[str] = []
    for step in steps:
        hosts = getattr(step, "hosts", ())
        if _is_cure(step) and cured[hosts] > 1:
            told.append(f"{_who(hosts)} {_verb(hosts, 'are', 'is')} well again")
        else:
            told.append(sentence(step))
    return told


def sentence(step: Step) -> str:
    """One step as a clause without capital and full stop."""
    match step:
        case AddNodes(names=names, within=within, start=True):
            when = f" within {words.seconds(within)}" if within else ""
            return f"{_who(names)} {_verb(names, 'start')}{when}"
        case AddNodes(names=names):
            return f"{_who(names)} {'are' if len(names) != 1 else 'is'} there, not started"
        case Start(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'start')}"
        case Crash(hosts=hosts, host_down=True):
            return f"{_who(hosts)} {_verb(hosts, 'go', 'goes')} dark: silence, nothing is refused"
        case Crash(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'crash', 'crashes')}: no process, dials are refused"
        case Restart(hosts=hosts, disk=disk, moved=moved):
            how = {"kept": "with the same disk", "lost": "with an empty disk"}.get(
                disk, f"with the disk of {disk}"
            )
            where = ", at another address" if moved else ""
            return f"{_who(hosts)} {_verb(hosts, 'start')} again {how}{where}"
        case Pause(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'get')} no processor"
        case Resume(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'run')} again"
        case Leave(hosts=hosts):
            return f"{_who(hosts)} {'are' if len(hosts) != 1 else 'is'} told to leave"
        case Clone(hosts=hosts):
            return f"{_who(hosts)} {'are' if len(hosts) != 1 else 'is'} cloned: another machine with key and disk"
        case Partition(left=left, right=right, one_way=True):
            return f"cut, one way: nothing gets from {_who(left)} to {_who(right)}"
        case Partition(left=left, right=right):
            return f"cut: {_who(left)} | {_who(right)}"
        case PartitionShape(shape=shape, hosts=hosts):
            return f"cut in the shape {shape}: {_who(hosts)}"
        case Swizzle(hosts=hosts, share=share, seconds=seconds):
            part = words.share(share)
            return f"{part} of {_who(hosts)} are cut off one by one and let back, over {words.seconds(2 * seconds)}"
        case Flap(hosts=hosts, on=on, off=off, seconds=seconds, direction=direction):
            how = {"ingress": ", so that they hear nobody", "egress": ", so that nobody hears them"}.get(
                direction, ""
            )
            return (
                f"{_who(hosts)} {_verb(hosts, 'are', 'is')} cut off for {words.seconds(on)} and back for "
                f"{words.seconds(off)}, again and again for {words.seconds(seconds)}{how}"
            )
        case Heal(name=None):
            return "the network heals"
        case Heal(name=name):
            return f"the cut {name} heals"
        case Hold(left=left, right=right):
            return f"what goes between {_who(left)} and {_who(right)} is held"
        case Release():
            return "what was held is released"
        case Weather(changes=changes):
            return f"the weather is {_weather(changes)}"
        case PathWeather(source=source, target=target, changes=changes):
            return f"from {_who(source)} to {_who(target)} the weather is {_weather(changes or {})}"
        case WeatherBetween(sources=sources, targets=targets, changes=changes, both_ways=both_ways):
            first, second = ("between", "and") if both_ways else ("from", "to")
            return f"{first} {_who(sources)} {second} {_who(targets)} the weather is {_weather(changes)}"
        case EndWeather(name=name):
            return f"the weather {name} ends" if name else "all weather of single paths ends"
        case Translate(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'are', 'is')} behind a translator of addresses (NAT)"
        case BlockDials(source=source, target=target, answer=answer):
            return f"dials from {_who(source)} to {_who(target)} are blocked: {answer}"
        case AllowDials():
            return "all dials get through again"
        case Block(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'block')} right before sending and after receiving"
        case ApplyRules(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'apply', 'applies')} rules to the whole cluster"
        case ChangeHandlers(hosts=hosts, agent=agent):
            return f"the handlers of {agent} behave otherwise on {_who(hosts)}"
        case SlowDown(hosts=hosts, service_time=service_time):
            pace = (
                f"now {words.seconds(service_time)} for each input"
                if service_time
                else "no time for an input again"
            )
            return f"{_who(hosts)} {_verb(hosts, 'take')} {pace}"
        case Upgrade(hosts=hosts):
            return f"{_who(hosts)} will run the next release"
        case TurnHostile(hosts=hosts, behaviour=behaviour, victims=victims):
            whom = f" to {_who(victims)}" if victims is not None else ""
            return f"{_who(hosts)} {_verb(hosts, 'turn')} hostile{whom}: {behaviour}"
        case TurnHonest(hosts=hosts):
            return f"{_who(hosts)} {_verb(hosts, 'do', 'does')} no more harm"
        case Replay(hosts=None, limit=limit):
            return f"up to {words.count(limit)} recorded datagrams arrive once more"
        case Replay(hosts=hosts, limit=limit):
            return f"up to {words.count(limit)} recorded datagrams arrive at {_who(hosts)}"
        case SetClock(hosts=hosts, rate=rate, wall_rate=wall_rate):
            if rate == wall_rate == 1.0:
                return f"the clocks of {_who(hosts)} run as they should"
            return f"the clocks of {_who(hosts)} run at {rate:.4g} (steady) and {wall_rate:.4g} (wall)"
        case StrobeClock(hosts=hosts, by=by, every=every):
            if not by:
                return f"the wall clock of {_who(hosts)} is right again"
            return (
                f"the wall clock of {_who(hosts)} is wrong by {by:+.3g} s every other {words.seconds(every)}"
            )
        case CrashAtWrite(hosts=hosts, write=write, durable=durable):
            when = "once it is durable" if durable else "while it is under way"
            return f"{_who(hosts)} will crash at write {write}, {when}"
        case StepClock(hosts=hosts, seconds=seconds):
            return f"the wall clock of {_who(hosts)} jumps by {seconds:+.4g} s"
        case SetDisk(hosts=hosts) if _is_cure(step):
            return f"the disk of {_who(hosts)} is well again"
        case SetDisk(hosts=hosts, failure=None, latency=latency):
            return f"the disk of {_who(hosts)} takes {words.seconds(latency)} for a write"
        case SetDisk(hosts=hosts, failure=failure):
            return f"the disk of {_who(hosts)} fails: {failure}"
        case _:
            return step.text().replace("..", "–")


def _who(selection: Any) -> str:
    if isinstance(selection, str):
        return selection
    return words.names(sorted(selection))


def _verb(selection: Any, several: str, one: str | None = None) -> str:
    return several if len(selection) != 1 else one or several + "s"


def _weather(changes: dict[str, Any]) -> str:
    if not changes:
        return "fair again"
    parts = []
    for key, value in changes.items():
        if key in ("loss", "duplicate", "reorder", "corrupt", "replay"):
            shown = words.share(value)
        else:
            shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        parts.append(f"{key.replace('_', ' ')} {shown}")
    return "now: " + ", ".join(parts)
