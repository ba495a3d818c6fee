"""The state of a running demo, kept up with every line that its processes write. The story and the screen look here."""

from __future__ import annotations

from dataclasses import dataclass, field

from reachp2p_node.demo.journal import Called, Line, Member, Routable, Served, Serving, Started


@dataclass(slots=True)
class Process:
    """One process as its own journal shows it."""

    name: str
    process: int = 0
    is_killed: bool = False
    epoch: int = 0
    lives: int = 0
    address: str = ""
    serving: dict[str, float] = field(default_factory=dict)
    """Calls under way in its handlers, and since when."""
    served: int = 0
    served_in_life: int = 0
    members: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Name -> state, epoch, incarnation: its own view."""
    routes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Capability -> (name, epoch): its own routing table."""


@dataclass(slots=True)
class Tally:
    """Calls to one agent."""

    done: int = 0
    failed: int = 0
    retried: int = 0


class Watch:
    """All processes of a run."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        self.tallies: dict[str, Tally] = {}

    def take(self, name: str, line: Line) -> None:
        """Keep up with one line."""
        process = self.processes.setdefault(name, Process(name))
        match line:
            case Started():
                process.process, process.epoch, process.address = line.process, line.epoch, line.address
                process.lives += 1
                process.is_killed = False
                process.served_in_life = 0
                process.serving, process.members, process.routes = {}, {name: ("ALIVE", line.epoch, 0)}, {}
            case Member():
                if line.state is None:
                    process.members.pop(line.name, None)
                else:
                    process.members[line.name] = (line.state, line.epoch, line.incarnation)
            case Routable():
                process.routes[line.capability] = line.instances
            case Serving():
                process.serving[line.call] = line.at
            case Served():
                if process.serving.pop(line.call, None) is not None:
                    process.served += 1
                    process.served_in_life += 1
            case Called():
                tally = self.tallies.setdefault(line.agent, Tally())
                tally.done += 1
                tally.failed += line.code != 0
                tally.retried += line.code == 0 and line.attempts > 1

    def mark_killed(self, name: str) -> None:
        """The demo has killed a process: what it had in its hands is gone."""
        self.processes[name].is_killed = True
        self.processes[name].serving.clear()

    @property
    def calls(self) -> int:
        """Calls that have ended, over all agents."""
        return sum(tally.done for tally in self.tallies.values())

    def has_started(self, name: str, lives: int = 1) -> bool:
        """Whether a process has begun its life number `lives`."""
        return name in self.processes and self.processes[name].lives >= lives

    def in_flight(self, name: str) -> int:
        """Calls under way in the handlers of a process."""
        return len(self.processes[name].serving) if name in self.processes else 0

    def newest_call(self, name: str) -> float:
        """When the latest of the calls under way in a process began; minus infinity if there is none."""
        return max(self.processes[name].serving.values(), default=float("-inf"))

    def sees_all(self, names: list[str]) -> bool:
        """Whether each of these processes sees each of them ALIVE."""
        return all(
            name in self.processes
            and all(self.processes[name].members.get(other, ("",))[0] == "ALIVE" for other in names)
            for name in names
        )

    def routes_are(self, names: list[str], wanted: dict[str, int]) -> bool:
        """Whether the routing table of each of these processes offers this many instances of each capability."""
        return all(
            len(self.processes[name].routes.get(capability, ())) == count
            for name in names
            for capability, count in wanted.items()
        )

    def offers(self, name: str, capability: str, instance: str) -> bool:
        """Whether the routing table of a process offers the instance, in its latest life."""
        wanted = (instance, self.processes[instance].epoch)
        return wanted in self.processes[name].routes.get(capability, ())

    def states_of(self, subject: str) -> dict[str, int]:
        """How many of the others hold each state of a member."""
        counts: dict[str, int] = {}
        for process in self.processes.values():
            if process.name != subject and subject in process.members:
                state = process.members[subject][0]
                counts[state] = counts.get(state, 0) + 1
        return counts
