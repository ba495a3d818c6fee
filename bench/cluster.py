"""A cluster on loopback: `python bench/cluster.py --nodes N [--processes]` prints one JSON object.

N nodes with real sockets, keys and disks. All but three live in one process (or, with `--processes`, in processes of
their own); three more processes hold one node each, because they are killed. Nodes share nothing, not even within a
process: each verifies every signature itself. Measured are

    join      from the last start until every node sees every node and routes to every agent, in several rounds: in
              the first one all nodes start at the same moment, in the others one after the other
    quiet     datagrams, bytes on the wire and CPU time of a network with nothing to say
    update    one more agent registered: until every node has it, in a quiet network and while others circulate
    kill      SIGKILL of a process: until it is out of every routing table, until it is DEAD everywhere, and, started
              again, until its new life is in every routing table

Times are CLOCK_MONOTONIC and each node's own: when it took the input that told it. Bytes on the wire are those of a
loopback interface of our own: headers, acknowledgements and handshakes included.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import trio
from loopback import UDP_IP_HEADERS, enter_private_network, traffic

VICTIMS = 3
"""Processes that are killed in turn."""
PROCESSES_MAX = 32
"""With `--processes` and more nodes than this, several share a process: each takes 40 MB and a third of a second."""
PATIENCE = 60.0
"""Seconds until something that should have happened is reported as missing."""
PAUSE = 2.0
"""Seconds after which news circulates no more."""
END_TIMEOUT = 5.0
CALM = 3.0
"""Seconds without news before the quiet phase is measured."""

REFERENCE: dict[int, dict[str, Any]] = {
    8: {"all_see_all": 0.2, "detect": 5.8, "update": 0.3, "datagrams": 2.0, "bytes": 267},
    32: {"all_see_all": 1.6, "detect": 7.7, "update": 0.5, "datagrams": 2.0, "bytes": 588},
    64: {"all_see_all": "3 to 80", "detect": 8.7, "update": 0.7, "datagrams": 2.0, "bytes": 577},
}
"""Go memberlist, LAN defaults, a harness of the same kind on two busy cores. `detect` is the first detection of a
crash; everywhere 0.2 to 0.4 s later. Seconds; bytes per node and second on the wire with push-pull, unsigned."""
BYTES_LIMIT = {8: 450, 32: 588, 64: 577}


class Worker:
    """A process with nodes, and the requests to it under way."""

    def __init__(self, process: trio.Process, nursery: trio.Nursery) -> None:
        self.process = process
        self._answers: dict[int, trio.MemorySendChannel[dict[str, Any]]] = {}
        self._writing = trio.Lock()
        self._last = 0
        nursery.start_soon(self._read)

    async def ask(self, do: str, **arguments: Any) -> Any:
        """One request; raises `RuntimeError` with what went wrong there, or if the process ends before it answers."""
        self._last += 1
        number = self._last
        send, receive = trio.open_memory_channel[dict[str, Any]](1)
        self._answers[number] = send
        line = json.dumps({"id": number, "do": do, "with": arguments}) + "\n"
        assert self.process.stdin is not None
        async with self._writing:
            await self.process.stdin.send_all(line.encode())
        answer = await receive.receive()
        if "error" in answer:
            raise RuntimeError(f"{do}: {answer['error']}")
        return answer["result"]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self._answers.pop(answer["id"]).send_nowait(answer)
        for channel in self._answers.values():
            channel.send_nowait({"error": "the process has ended"})


class Cluster:
    """All processes of one run."""

    def __init__(self, nodes: int, in_processes: bool, folder: Path, nursery: trio.Nursery) -> None:
        self.nodes = nodes
        self._folder = folder
        self._nursery = nursery
        standing = nodes - VICTIMS
        count = min(standing, PROCESSES_MAX - VICTIMS) if in_processes else 1
        self.shares = [standing // count + (i < standing % count) for i in range(count)]
        self.standing: list[Worker] = []
        self.victims: deque[tuple[Worker, int, dict[str, Any]]] = deque()
        """Process, number and first answer of the nodes that may be killed, the longest running first."""
        self._seed: list[str] = []
        self._name = ""

    async def spawn(self) -> Worker:
        """A process that has imported everything and has no node yet."""
        process = await trio.lowlevel.open_process(
            [sys.executable, str(Path(__file__).with_name("cluster_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        worker = Worker(process, self._nursery)
        await worker.ask("stats")
        return worker

    async def join(self, number: int, *, at_once: bool) -> dict[str, Any]:
        """Start all nodes, one after the other or at once after the first, and wait until they see each other."""
        if not self.standing:
            self.standing = await gather(self.spawn() for _ in self.shares)
            spare = await gather(self.spawn() for _ in range(VICTIMS))
        else:
            spare = [worker for worker, _, _ in self.victims]
        self._name = f"bench-{number}"
        places = [
            worker for worker, share in zip(self.standing, self.shares, strict=True) for _ in range(share)
        ]
        places += spare
        begun = time.monotonic()
        started = [await self._start(places[0], 0)]
        self._seed = [started[0]["address"]]
        if at_once:
            started += await gather(self._start(place, i) for i, place in enumerate(places) if i)
        else:
            started += [await self._start(place, i) for i, place in enumerate(places) if i]
        self.victims = deque(
            (worker, i, started[i]) for i, worker in enumerate(places) if i >= self.nodes - VICTIMS
        )
        last = max(one["started_at"] for one in started)
        complete = await self._ask_nodes("complete", timeout=PATIENCE)
        times = [max(0.0, at - last) for at in complete if at is not None]
        return {
            "start": "at once" if at_once else "one by one",
            "start_seconds": round(last - begun, 3),
            "all_see_all_seconds": round(max(times), 3) if len(times) == self.nodes else None,
            "median_node_seconds": round(statistics.median(times), 3) if times else None,
            "incomplete_nodes": self.nodes - len(times),
        }

    async def _start(self, worker: Worker, number: int) -> dict[str, Any]:
        is_victim = number >= self.nodes - VICTIMS
        answer: dict[str, Any] = await worker.ask(
            "join",
            number=number,
            total=self.nodes,
            cluster=self._name,
            seeds=self._seed if number else [],
            state=str(self._folder / f"{self._name}-{number}") if is_victim else None,
        )
        return answer

    async def close(self) -> None:
        """End all nodes; the processes stay."""
        self._seed = []
        await self._ask_all("close")

    async def stats(self) -> dict[str, Any]:
        """Counters of all nodes and CPU seconds of all processes."""
        answers = await self._ask_all("stats")
        counters: dict[str, int] = {}
        for answer in answers:
            for name, value in answer["counters"].items():
                counters[name] = counters.get(name, 0) + value
        return {"cpu": sum(answer["cpu"] for answer in answers), "counters": counters, "answers": answers}

    async def quiet(self, seconds: float) -> dict[str, Any]:
        """What a network costs that has nothing to say."""
        calm_since, begun = time.monotonic(), time.monotonic()
        while time.monotonic() - calm_since < CALM and time.monotonic() - begun < PATIENCE:
            await trio.sleep(0.5)
            if (await self.stats())["counters"]["size.broadcast_queue"]:
                calm_since = time.monotonic()
        before, wire_before, at = await self.stats(), traffic(), time.monotonic()
        await trio.sleep(seconds)
        after, wire_after, elapsed = await self.stats(), traffic(), time.monotonic() - at
        counted = difference(before["counters"], after["counters"])
        node_seconds = self.nodes * elapsed
        udp = counted["bytes.datagrams_sent"] + UDP_IP_HEADERS * counted["datagrams.sent"]
        wire = wire_after - wire_before if wire_after and wire_before else None
        return {
            "calm_after_seconds": round(at - begun, 1),
            "seconds": round(elapsed, 1),
            "datagrams_per_node_and_period": round(counted["datagrams.sent"] / node_seconds, 3),
            "bytes_per_node_and_second": round(wire.bytes / node_seconds, 1) if wire else None,
            "of_these_udp": round(udp / node_seconds, 1),
            "of_these_tcp": round((wire.bytes - udp) / node_seconds, 1) if wire else None,
            "tcp_segments_per_node_and_second": round(wire.tcp_segments / node_seconds, 2) if wire else None,
            "cpu_ms_per_node_and_second": round((after["cpu"] - before["cpu"]) / node_seconds * 1e3, 2),
            "cpu_seconds_per_node_since_start": round(after["cpu"] / self.nodes, 2),
            "links_per_node": round(after["counters"].get("size.links", 0) / self.nodes, 1),
            "peak_mb_per_process": [round(a["rss_kb"] / 1024) for a in after["answers"]][:4],
            "counted": {k: v for k, v in counted.items() if v > 0 and is_telling(k)},
        }

    async def update(self, number: int) -> float | None:
        """Register one more agent at a node, not always the same; seconds until all have it."""
        worker, index = self._nth(number * 7 % (self.nodes - VICTIMS))
        at = await worker.ask("register", index=index, name=f"update-{number}")
        seen = await self._ask_nodes("seen", name=f"update-{number}", timeout=PATIENCE)
        return since(at, seen)

    def _nth(self, number: int) -> tuple[Worker, int]:
        for worker, share in zip(self.standing, self.shares, strict=True):
            if number < share:
                return worker, number
            number -= share
        raise AssertionError("fewer nodes than that")

    async def kill(self) -> tuple[float | None, float | None, float | None]:
        """Kill a process that all others route to, in a quiet network, and start it again.

        Seconds from the kill until no node routes to it, and until all hold it DEAD; seconds from the announcement of
        its new life until all route to that.
        """
        victim, number, was = self.victims.popleft()
        at = time.monotonic()
        victim.process.kill()
        await victim.process.wait()
        gone = await self._ask_nodes("gone", node=was["node"], timeout=PATIENCE)
        worker = await self.spawn()
        answer = await self._start(worker, number)
        self.victims.append((worker, number, answer))
        routed = {"node": answer["node"], "epoch": answer["epoch"], "timeout": PATIENCE}
        back = await self._ask_nodes("routed", **routed)
        await trio.sleep(PAUSE)
        return (
            since(at, [lost for lost, _ in gone]),
            since(at, [dead for _, dead in gone]),
            since(answer["started_at"], back),
        )

    async def end(self) -> None:
        """End all processes: asked to by the end of their input, made to after that."""
        processes = [w.process for w in (*self.standing, *(worker for worker, _, _ in self.victims))]
        for process in processes:
            assert process.stdin is not None
            await process.stdin.aclose()
        with trio.move_on_after(END_TIMEOUT):
            await gather(process.wait() for process in processes)
        for process in processes:
            process.kill()
        await gather(
            process.wait() for process in processes
        )  # nobody writes into the folder that is removed next

    async def _ask_all(self, do: str, **arguments: Any) -> list[Any]:
        workers = [*self.standing, *(worker for worker, _, _ in self.victims)]
        return await gather(worker.ask(do, **arguments) for worker in workers)

    async def _ask_nodes(self, do: str, **arguments: Any) -> list[Any]:
        """What is answered for each node by itself, over all processes."""
        return list(chain.from_iterable(await self._ask_all(do, **arguments)))


async def gather(jobs: Iterable[Any]) -> list[Any]:
    """Await all at once; the results in order."""
    jobs = list(jobs)
    results: list[Any] = [None] * len(jobs)

    async def one(index: int, job: Any) -> None:
        results[index] = await job

    async with trio.open_nursery() as nursery:
        for index, job in enumerate(jobs):
            nursery.start_soon(one, index, job)
    return results


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What was counted in between."""
    return {name: value - before.get(name, 0) for name, value in after.items()}


def since(at: float, times: list[float | None]) -> float | None:
    """Seconds from `at` to the last of these times; None if one of them never came."""
    known = [each for each in times if each is not None]
    return max(known) - at if len(known) == len(times) else None


def is_telling(counter: str) -> bool:
    """Counters that say whether a quiet network was a healthy one."""
    return counter.startswith(
        ("dropped.", "suspicion.", "members.", "refut", "lag.", "probe.", "sync.", "links.")
    )


def quantile(values: list[float], q: float) -> float:
    """The smallest value with at least this share at or below it."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def summary(values: list[float | None]) -> dict[str, Any]:
    """Median, p99 and worst in seconds, and how many never came."""
    known = [value for value in values if value is not None]
    if not known:
        return {"count": 0, "missing": len(values)}
    return {
        "count": len(known),
        "missing": len(values) - len(known),
        "median": round(statistics.median(known), 3),
        "p99": round(quantile(known, 0.99), 3),
        "max": round(max(known), 3),
    }


def verdicts(nodes: int, figures: dict[str, Any]) -> dict[str, bool]:
    """The targets and whether they are met; one that was not measured is left out."""
    join, quiet = figures["join"], figures["quiet"]
    targets: dict[str, bool] = {}
    for start in dict.fromkeys(one["start"] for one in join):
        rounds = [one["all_see_all_seconds"] for one in join if one["start"] == start]
        is_met = all(seconds is not None and seconds <= 2.5 for seconds in rounds)
        targets[f"all see all within 2.5 s of the last join, in every round, started {start}"] = is_met
    if kill := figures["kill"]:
        out = kill["out_of_every_routing_table"]
        whole = not out["missing"]
        targets["a killed process out of every routing table: median 1 s"] = whole and out["median"] <= 1.0
        targets["a killed process out of every routing table: p99 3 s"] = whole and out["p99"] <= 3.0
    if figures["update"]:
        update = figures["update"]["in_a_quiet_network"]
        is_met = not update["missing"] and update["median"] < 0.5
        targets["an update everywhere: median under 0.5 s"] = is_met
    if quiet:
        sent, size = quiet["datagrams_per_node_and_period"], quiet["bytes_per_node_and_second"]
        targets["2.0 datagrams per node and period when quiet"] = sent <= 2.05
        if nodes in BYTES_LIMIT and size is not None:
            limit = BYTES_LIMIT[nodes]
            targets[f"at most {limit} bytes per node and second on the wire"] = size <= limit
    return targets


@asynccontextmanager
async def cluster(nodes: int, in_processes: bool) -> AsyncIterator[Cluster]:
    """A cluster whose processes are gone afterwards, however the block ends."""
    with tempfile.TemporaryDirectory(prefix="reachp2p-bench-") as folder:
        async with trio.open_nursery() as nursery:
            made = Cluster(nodes, in_processes, Path(folder), nursery)
            try:
                yield made
            finally:
                with trio.CancelScope(shield=True):
                    await made.end()
                nursery.cancel_scope.cancel()


async def end_on_signal() -> None:
    """Let SIGTERM end the run like Ctrl-C, so that no process is left behind."""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            raise KeyboardInterrupt


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """All phases, unless a signal comes first."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_on_signal)
        figures = await measure(options)
        nursery.cancel_scope.cancel()
    return figures


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All phases in their order."""
    figures: dict[str, Any] = {"join": [], "quiet": None, "update": None, "kill": None}
    async with cluster(options.nodes, options.processes) as made:
        for number in range(options.rounds):
            at_once = options.rounds > 1 and number == 0
            if number:
                await made.close()
            progress(
                f"join, round {number + 1} of {options.rounds}: {'at once' if at_once else 'one by one'}"
            )
            figures["join"].append(await made.join(number, at_once=at_once))
        if options.quiet_seconds > 0:
            progress(f"quiet, {options.quiet_seconds:g} s once it is calm")
            figures["quiet"] = await made.quiet(options.quiet_seconds)
        if options.updates > 0:
            progress(f"{options.updates} updates, each in a quiet network, and as many back to back")
            alone: list[float | None] = []
            for number in range(options.updates):
                await trio.sleep(PAUSE)
                alone.append(await made.update(number))
            closely = [await made.update(options.updates + number) for number in range(options.updates)]
            figures["update"] = {"in_a_quiet_network": summary(alone), "back_to_back": summary(closely)}
        if options.kills > 0:
            progress(f"{options.kills} kills")
            await trio.sleep(PAUSE)
            killed = [await made.kill() for _ in range(options.kills)]
            names = ("out_of_every_routing_table", "dead_everywhere", "new_life_routed_everywhere")
            figures["kill"] = {
                name: summary(list(times))
                for name, times in zip(names, zip(*killed, strict=True), strict=True)
            }
        figures["processes"] = len(made.shares) + VICTIMS
    return figures


def progress(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--processes", action="store_true", help="a process for each node (at most 32)")
    parser.add_argument("--rounds", type=int, default=2, help="how often all nodes start and find each other")
    parser.add_argument("--quiet-seconds", type=float, default=20.0)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--kills", type=int, default=6)
    options = parser.parse_args()
    if options.nodes <= VICTIMS + 1 or options.rounds < 1:
        parser.error(f"--nodes is more than {VICTIMS + 1}, --rounds at least 1")
    begun = time.monotonic()
    is_private = enter_private_network()
    try:
        figures = trio.run(run, options)
    except* KeyboardInterrupt:
        sys.exit("cluster: interrupted")
    print(
        json.dumps(
            {
                "bench": "cluster",
                "nodes": options.nodes,
                "processes": figures.pop("processes"),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "wire": "an own loopback interface"
                if is_private
                else "the machine's loopback, others included",
                **figures,
                "reference": REFERENCE.get(options.nodes),
                "targets": verdicts(options.nodes, figures),
                "seconds": round(time.monotonic() - begun, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
