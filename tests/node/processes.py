"""Processes of one test: nodes (`one_node.py`) and programs (`reachp2p …`), none of which outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ONE_NODE = Path(__file__).with_name("one_node.py")
PATIENCE = 20.0
"""Seconds for what takes one or two on a machine that is not busy."""
QUICK = {
    "probe_interval": 0.2,
    "probe_timeout": 0.1,
    "gossip_interval": 0.05,
    "push_pull_interval": 2.0,
    "recontact_interval": 1.0,
    "gossip_to_dead": 1.0,
    "start_answer_timeout": 0.3,
}
"""Five times as fast as nodes usually are: suspicions last 0.8 to 4.8 s."""

Line = dict[str, Any]


class Output:
    """What a process prints, line by line, as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[Line] = []
        self._process = process
        self._condition = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            with self._condition:
                self.lines.append(json.loads(text))
                self._condition.notify_all()
        with self._condition:
            self._is_over = True
            self._condition.notify_all()

    def wait(self, is_it: Callable[[Sequence[Line]], Any], what: str, patience: float = PATIENCE) -> Any:
        """Wait until the lines so far satisfy something; what that returned. Fails when the process ends or waits too
        long."""
        deadline = time.monotonic() + patience
        with self._condition:
            while True:
                if found := is_it(self.lines):
                    return found
                rest = deadline - time.monotonic()
                if self._is_over or rest <= 0:
                    why = "the process has ended" if self._is_over else f"not within {patience:g} s"
                    raise AssertionError(f"{what}: {why}; it said {self.lines[-8:]}")
                self._condition.wait(rest)

    def join(self) -> None:
        self._thread.join(PATIENCE)


class Program:
    """A process that prints lines of JSON and does what it is told."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.output = Output(self.process)

    def said(self, what: str, patience: float = PATIENCE, after: int = 0, **fields: Any) -> Line:
        """The first line of a kind with these fields; waits for it."""

        def find(lines: Sequence[Line]) -> Line | None:
            for line in lines[after:]:
                if line["is"] == what and all(line.get(key) == value for key, value in fields.items()):
                    return line
            return None

        found: Line = self.output.wait(find, f"{self.name} to say {what} {fields}", patience)
        return found

    @property
    def lines(self) -> list[Line]:
        """All it has said so far."""
        return list(self.output.lines)

    @property
    def errors(self) -> str:
        """What it has written to standard error."""
        return self._log.read_text(errors="replace")

    def order(self, do: str, **fields: Any) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def ends(self, patience: float = PATIENCE) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(patience)
        self.output.join()
        return code

    def clear(self) -> None:
        """Nothing is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # an order that it did not live to read
                    stream.close()


class Member(Program):
    """A node in a process of its own."""

    def __init__(self, folder: Path, name: str, log: Path, **options: Any) -> None:
        self.state = Path(options.pop("state", folder / name))
        self.options = {"name": name, "state": str(self.state), "protocol": QUICK, **options}
        super().__init__(name, [str(ONE_NODE), json.dumps(self.options)], log)

    @property
    def started(self) -> Line:
        """Its start: node, address, epoch, process; waits for it."""
        return self.said("started")

    @property
    def address(self) -> str:
        """Where it listens; waits for its start."""
        return str(self.started["address"])

    def views(self, lines: Sequence[Line] | None = None) -> dict[str, tuple[str, int]]:
        """State and epoch of every other member, by name, in this node's own view."""
        held: dict[str, tuple[str, int]] = {}
        for line in self.output.lines if lines is None else lines:
            if line["is"] == "MemberChanged":
                if line["new"] is None:
                    held.pop(line["name"], None)
                else:
                    held[line["name"]] = (line["new"], line["life"][0])
        return held

    def sees(self, expected: Mapping[str, str | tuple[str, int]], patience: float = PATIENCE) -> None:
        """Wait until exactly these members are in its view: by name the state, or state and epoch."""

        def is_so(lines: Sequence[Line]) -> bool:
            held = self.views(lines)
            return set(held) == set(expected) and all(
                held[name] == want if isinstance(want, tuple) else held[name][0] == want
                for name, want in expected.items()
            )

        self.output.wait(is_so, f"{self.name} to see {dict(expected)}", patience)

    def news_of(self, name: str) -> list[Line]:
        """What it has noticed about another member, in order."""
        return [line for line in self.lines if line["is"] == "MemberChanged" and line["name"] == name]

    def look(self) -> Line:
        """Its members, agents and diagnostics now."""
        seen = len(self.output.lines)
        self.order("look")
        return self.said("look", after=seen)

    def call(self, capability: str, **fields: Any) -> Line:
        """Have it call somebody; how that ended."""
        seen = len(self.output.lines)
        self.order("call", capability=capability, **fields)
        return self.said("answer", after=seen)


class Processes:
    """Starts them, and ends all that still run when the test is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: list[Program] = []
        (folder / "tmp").mkdir()

    def start(self, name: str, **options: Any) -> Member:
        """Start a node; it is not waited for."""
        member = Member(self.folder, name, self._log(name), **options)
        self._programs.append(member)
        return member

    def script(self, name: str, program: str, *arguments: object) -> Program:
        """Start a program of a test's own; its arguments are this folder and a list of JSON."""
        words = ["-c", program, str(ONE_NODE.parent), json.dumps(arguments)]
        script = Program(name, words, self._log(name))
        self._programs.append(script)
        return script

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.{len(self._programs)}.log"

    def restart(self, member: Member, **options: Any) -> Member:
        """Start a node again, on the state that it left, as it was started before."""
        return self.start(**{**member.options, **options})

    def network(self, *names: str, **options: Any) -> list[Member]:
        """Nodes that see each other; the first is the seed of the others."""
        members = [self.start(names[0], **options)]
        seeds = [members[0].address]
        members += [self.start(name, **{"seeds": seeds, **options}) for name in names[1:]]
        all_see_all(members)
        return members

    def run(self, *arguments: str, patience: float = PATIENCE) -> tuple[int, str, str]:
        """Run `reachp2p` with these arguments to its end; exit code, stdout, stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "reachp2p", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=patience,
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def environment(self) -> dict[str, str]:
        """Without settings of the person who runs the tests."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("REACHP2P_")}
        return {**kept, "XDG_STATE_HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp")}

    def end(self) -> None:
        """Kill what still runs."""
        for program in self._programs:
            program.clear()


def first_to_end(members: Sequence[Member], patience: float = PATIENCE) -> tuple[Member, list[Member]]:
    """Wait until one of these has ended; that one, and the others."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for member in members:
            if member.process.poll() is not None:
                return member, [other for other in members if other is not member]
        time.sleep(0.02)
    raise AssertionError(f"none of {len(members)} has ended within {patience:g} s")


def copy_state(state: Path, copy: Path) -> None:
    """Copy a state folder as an image of its disk would be; sockets are not on a disk."""
    shutil.copytree(state, copy, ignore=shutil.ignore_patterns("control.*"))


def all_see_all(members: Iterable[Member], patience: float = PATIENCE) -> None:
    """Wait until these nodes, and nobody else, see each other ALIVE in their present lives, and each other's agents."""
    members = list(members)
    lives = {member.name: ("ALIVE", member.started["epoch"]) for member in members}
    for member in members:
        member.sees({name: life for name, life in lives.items() if name != member.name}, patience)
        for other in members:
            if other is not member:
                member.said("RecordChanged", patience, node=other.started["node"], present=True)
