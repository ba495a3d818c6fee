"""The simulator: `python bench/sim.py [--seconds 40] [--large] [--campaign]` prints one JSON object.

Delivered messages (datagrams and frames) per CPU second of the simulating process, 128 nodes, keyed-hash signing, in a
quiet group and in one where nodes are paused and released again and again (Lifeguard's interval experiment), with and
without the codec, with and without checkers. The worlds of one part take turns within the run, and the best of several
rounds counts, because a busy machine only ever makes them slower. The reference is a bare heap loop in the same run:
one push, one pop and one call a message, which no simulator in this language can beat.

`--large` adds 1,000 nodes for 300 simulated seconds from a converged start, and 2,000 nodes that join through one
seed, each in a process of its own for the sake of its peak memory (10 to 30 minutes). `--campaign` runs the same
campaign with one worker and with two (wall time; it wants two idle cores).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any

from reachp2p_sim.checkers import attach_all
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World

NODES = 128
ROUNDS = 5
WARM_UP = 40.0
"""Simulated seconds after a converged start: the links that first comparisons of views have opened fall silent."""
PAUSED, PAUSE, RUN = 8, 8.192, 1.024
"""C nodes without a processor for D seconds, then with it for I seconds (Lifeguard §V.A)."""
TARGETS = {
    "messages_per_cpu_second": 30_000,
    "messages_per_cpu_second_codec_off": 70_000,
    "large_seconds": 90,
    "bootstrap_seconds": 900,
    "bootstrap_gib": 4.0,
    "campaign_speed_up": 1.7,
}
MODES: dict[str, tuple[str, bool]] = {
    "codec": ("on", True),
    "codec_off": ("off", True),
    "codec_no_checkers": ("on", False),
    "codec_off_no_checkers": ("off", False),
}
"""Name in the output: codec, and whether all checkers watch."""
CAMPAIGN = ("random-faults", "16")
"""Scenario and number of seeds."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def bare_heap(seconds: float) -> float:
    """Messages per CPU second of a loop that moves one object a message and does nothing else."""
    chance = Random(1)
    delays = [0.0005 + chance.expovariate(1 / 0.0045) for _ in range(1_024)]
    heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
    sent = 0

    def receive(number: int) -> None:
        nonlocal sent
        sent += 1
        heappush(heap, (now + delays[sent & 1_023], sent, receive, number))

    now = 0.0
    for number in range(NODES):
        receive(number)
    best = 0.0
    for _ in range(ROUNDS):
        began_at, before = time.process_time(), sent
        while time.process_time() - began_at < seconds / ROUNDS:
            for _ in range(1_000):
                now, _, action, argument = heappop(heap)
                action(argument)
        best = max(best, (sent - before) / (time.process_time() - began_at))
    return best


def built(codec: str, has_checkers: bool, nodes: int = NODES) -> World:
    world = World(1, codec="off" if codec == "off" else "on")
    if has_checkers:
        attach_all(world)
    world.add_nodes(nodes, converged=True)
    return world


def pauses(world: World) -> None:
    """Pause the same few nodes and release them, for ever."""
    chosen = world.randomness.stream("paused").sample(world.nodes, PAUSED)

    def pause(_: None) -> None:
        world.pause(*chosen)
        world.timeline.after(PAUSE, resume)

    def resume(_: None) -> None:
        world.resume(*chosen)
        world.timeline.after(RUN, pause)

    world.timeline.after(0.0, pause)


def rates(seconds: float, *, with_pauses: bool) -> dict[str, Any]:
    """Every mode, taking turns; all must leave the same trace."""
    worlds = {name: built(*mode) for name, mode in MODES.items()}
    for world in worlds.values():
        world.run(WARM_UP)
        if with_pauses:
            pauses(world)
    best = dict.fromkeys(MODES, 0.0)
    messages = 0
    for _ in range(ROUNDS):
        for name, world in worlds.items():
            began_at, before = time.process_time(), world.messages
            world.run(seconds / ROUNDS)
            messages = world.messages - before
            best[name] = max(best[name], messages / (time.process_time() - began_at))
    digests = {world.trace.digest() for world in worlds.values()}
    return {
        "simulated_seconds": seconds,
        "messages_per_simulated_second": round(messages / (seconds / ROUNDS), 1),
        "messages_per_cpu_second": {name: round(rate) for name, rate in best.items()},
        "same_trace": len(digests) == 1,
    }


def large() -> dict[str, Any]:
    """1,000 nodes, 300 simulated seconds from a converged start, codec off, all checkers."""
    began_at = time.process_time()
    world = built("off", True, 1_000)
    world.run(0.2)
    built_seconds = time.process_time() - began_at
    began_at, before = time.process_time(), world.messages
    for second in range(300):
        world.run(1.0)
        if second % 20 == 19:
            say(f"  {second + 1} s simulated in {time.process_time() - began_at:.0f} s of CPU")
    seconds = time.process_time() - began_at
    return {
        "nodes": 1_000,
        "cpu_seconds": round(seconds, 1),
        "messages": world.messages - before,
        "messages_per_cpu_second": round((world.messages - before) / seconds),
        "cpu_seconds_to_build": round(built_seconds, 1),
        "peak_gib": round(peak_gib(), 2),
    }


def bootstrap(nodes: int) -> dict[str, Any]:
    """All join through one seed at once, until every node sees every other ALIVE; codec off, all checkers."""
    began_at = time.process_time()
    empty = peak_gib()
    world = World(1, codec="off")
    attach_all(world)
    world.add_nodes(nodes)
    while not agreed(world) and world.now < 120:
        world.run(0.5)
        rows = sum(len(host.view.members) for host in world.nodes)
        say(
            f"  {world.now:.1f} s: {rows / nodes / (nodes - 1):.1%} of all rows, "
            f"{time.process_time() - began_at:.0f} s of CPU, {peak_gib():.2f} GiB"
        )
    return {
        "nodes": nodes,
        "agreed": agreed(world),
        "simulated_seconds": world.now,
        "cpu_seconds": round(time.process_time() - began_at, 1),
        "messages": world.messages,
        "peak_gib": round(peak_gib(), 2),
        "bytes_per_pair": round((peak_gib() - empty) * 2**30 / nodes / nodes),
    }


def peak_gib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def campaign() -> dict[str, Any]:
    """The same seeds with one worker and with two."""
    seconds: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            scenario, seeds = CAMPAIGN
            command = [sys.executable, "-m", "reachp2p_sim", "campaign", scenario, "--seeds", seeds]
            command += ["--workers", str(workers), "--json", "--store", str(Path(folder, str(workers)))]
            began_at = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds[workers] = time.perf_counter() - began_at
            say(f"  {workers} worker(s): {seconds[workers]:.1f} s")
    return {
        "scenario": CAMPAIGN[0],
        "seeds": int(CAMPAIGN[1]),
        "seconds": {str(workers): round(taken, 1) for workers, taken in seconds.items()},
        "speed_up": round(seconds[1] / seconds[2], 2),
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "large": lambda _: large(),
    "bootstrap": lambda options: bootstrap(options.bootstrap_nodes),
}


def apart(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """A part in a process of its own."""
    command = [sys.executable, __file__, "--part", part, "--bootstrap-nodes", str(options.bootstrap_nodes)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40.0, help="simulated seconds of each measurement")
    parser.add_argument("--large", action="store_true", help="1,000 and 2,000 nodes as well")
    parser.add_argument("--campaign", action="store_true", help="one worker against two as well")
    parser.add_argument("--bootstrap-nodes", type=int, default=2_000)
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](options)))
        return
    say("a bare heap loop")
    reference = bare_heap(2.0)
    say("a quiet group")
    steady = rates(options.seconds, with_pauses=False)
    say("nodes paused and released")
    intervals = rates(options.seconds, with_pauses=True)
    result: dict[str, Any] = {
        "python": platform.python_version(),
        "nodes": NODES,
        "reference": {"bare_heap_messages_per_cpu_second": round(reference)},
        "steady": steady,
        "intervals": {"paused": PAUSED, "pause_seconds": PAUSE, "run_seconds": RUN, **intervals},
    }
    for part in (steady, intervals):
        part["share_of_bare_heap"] = {
            name: round(rate / reference, 4) for name, rate in part["messages_per_cpu_second"].items()
        }
    if options.large:
        say("1,000 nodes from a converged start")
        result["large"] = apart("large", options)
        say(f"{options.bootstrap_nodes} nodes join through one seed")
        result["bootstrap"] = apart("bootstrap", options)
    if options.campaign:
        say("a campaign with one worker and with two")
        result["campaign"] = campaign()
    result["targets"] = targets(result)
    print(json.dumps(result, indent=2))


def targets(result: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, and whether it is met in every part that asks for it."""
    rates_of = [result[part]["messages_per_cpu_second"] for part in ("steady", "intervals")]
    met: dict[str, bool] = {
        "messages_per_cpu_second": min(rate["codec"] for rate in rates_of)
        >= TARGETS["messages_per_cpu_second"],
        "messages_per_cpu_second_codec_off": min(rate["codec_off"] for rate in rates_of)
        >= TARGETS["messages_per_cpu_second_codec_off"],
    }
    if "large" in result:
        met["large_seconds"] = result["large"]["cpu_seconds"] < TARGETS["large_seconds"]
        met["bootstrap_seconds"] = result["bootstrap"]["cpu_seconds"] < TARGETS["bootstrap_seconds"]
        met["bootstrap_gib"] = result["bootstrap"]["peak_gib"] < TARGETS["bootstrap_gib"]
    if "campaign" in result:
        met["campaign_speed_up"] = result["campaign"]["speed_up"] >= TARGETS["campaign_speed_up"]
    return {name: {"target": TARGETS[name], "met": is_met} for name, is_met in met.items()}


if __name__ == "__main__":
    main()
