"""Lives of real processes: copied and lost state folders, a clock that goes back, leaving and coming back.

Cases B03, B17, B21 and B51, each with processes of their own; who sees what is read from each process's own news.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from reachp2p.runtime.run import EXIT_CLEAN, EXIT_FENCED
from tests.node.processes import QUICK, Member, Processes, all_see_all, copy_state, first_to_end


def lose_tables(state: Path) -> None:
    """The disk is gone, the key was elsewhere."""
    for file in state.glob("state.db*"):
        file.unlink()


def leave(member: Member) -> None:
    member.process.terminate()
    assert member.ends() == EXIT_CLEAN


# Clones (B51)


def test_a_copy_as_old_as_the_original_is_refused_beside_it_and_nobody_notices(processes: Processes) -> None:
    seed, original = processes.network("seed", "original")
    copied = processes.folder / "copy"
    copy_state(original.state, copied)
    original.kill()
    original = processes.restart(original)
    seed.sees({"original": ("ALIVE", 2)})
    seen = len(seed.news_of("original"))
    copy = processes.restart(original, state=str(copied))
    assert copy.ends() == EXIT_FENCED, "its epoch would be 2, as that of the original, which answers"
    assert "another node runs under this key" in copy.errors
    assert "stop it, or start with --take-over [1601]" in copy.errors
    assert "Traceback" not in copy.errors
    assert original.process.poll() is None
    assert original.call("original.wait")["value"] == "original has waited"
    assert seed.news_of("original")[seen:] == [], "no flip-flop"


@pytest.mark.parametrize("take_over", [False, True], ids=["a newer copy", "an older copy told to take over"])
def test_a_copy_above_the_original_goes_on_and_the_original_stops_for_good(
    processes: Processes, take_over: bool
) -> None:
    """The rule is fixed: the higher life goes on. A copy of the last state begins above it, as any restart would."""
    seed, original = processes.network("seed", "original")
    copied = processes.folder / "copy"
    copy_state(original.state, copied)
    if take_over:
        original.kill()
        original = processes.restart(original)
        seed.sees({"original": ("ALIVE", 2)})
    copy = processes.restart(original, state=str(copied), take_over=take_over)
    assert original.ends() == EXIT_FENCED
    assert "so that this one has stopped for good" in original.errors
    assert str(original.state) in original.errors, "it says which folder is marked"
    assert "Traceback" not in original.errors
    copy.said("CloneSeen")
    assert "is told to stop" in copy.errors, "both sides are alarmed"
    seed.sees({"original": ("ALIVE", copy.started["epoch"])})
    for _ in range(2):  # as a supervisor would
        again = processes.restart(original)
        assert again.ends() == EXIT_FENCED
        assert "this state folder is fenced" in again.errors
    assert copy.process.poll() is None
    assert seed.call("original.wait")["value"] == "original has waited"
    alive = [line["life"][0] for line in seed.news_of("original") if line["new"] == "ALIVE"]
    assert alive == sorted(set(alive)), "no flip-flop"
    assert len(alive) == (3 if take_over else 2)


@pytest.mark.parametrize("first", ["original", "copy"])
def test_of_an_original_and_a_copy_that_start_at_once_one_goes_on(processes: Processes, first: str) -> None:
    """Both orders: whoever of the two is started a moment earlier."""
    seed, original = processes.network("seed", "original")
    original.kill()
    copied = processes.folder / "copy"
    copy_state(original.state, copied)
    states = {"original": original.state, "copy": copied}
    second = next(name for name in states if name != first)
    two = [processes.restart(original, state=str(states[name])) for name in (first, second)]
    ended, (other,) = first_to_end(two)
    assert ended.ends() == EXIT_FENCED
    assert "[1601]" in ended.errors
    seed.sees({"original": ("ALIVE", other.started["epoch"])})
    assert seed.call("original.wait")["value"] == "original has waited"


def test_a_copy_on_another_machine_goes_on_for_an_original_that_has_stopped_and_that_one_follows_it(
    processes: Processes,
) -> None:
    """Each start is above all former lives of either folder, although the two never see each other's disk."""
    seed, original = processes.network("seed", "original")
    copied = processes.folder / "copy"
    copy_state(original.state, copied)
    original.kill()
    original = processes.restart(original)
    seed.sees({"original": ("ALIVE", 2)})
    leave(original)
    copy = processes.restart(original, state=str(copied))
    assert copy.started["epoch"] == 3, "it says 2 on its own disk; the others have told it"
    seed.sees({"original": ("ALIVE", 3)})
    copy.kill()
    back = processes.restart(original)
    assert back.started["epoch"] > 3
    seed.sees({"original": ("ALIVE", back.started["epoch"])})


# Lost state (B21)


def test_with_its_folder_deleted_a_node_comes_back_as_somebody_new(processes: Processes) -> None:
    seed, member = processes.network("seed", "member")
    member.kill()
    shutil.rmtree(member.state)
    back = processes.restart(member)
    assert back.started["node"] != member.started["node"]
    assert back.started["epoch"] == 1
    seed.said("MemberChanged", node=back.started["node"], new="ALIVE")
    seed.said("MemberChanged", node=member.started["node"], new="DEAD")
    assert seed.call("member.wait")["value"] == "member has waited"


def test_with_its_tables_lost_a_node_outbids_its_own_past(processes: Processes) -> None:
    seed, member = processes.network("seed", "member")
    for _ in range(3):
        member.kill()
        member = processes.restart(member)
        member.started  # noqa: B018 (waits for it)
    seed.sees({"member": ("ALIVE", 4)})
    member.kill()
    lose_tables(member.state)
    back = processes.restart(member)
    assert back.started["epoch"] == 5
    seed.sees({"member": ("ALIVE", 5)})
    back.kill()
    back = processes.restart(back)
    assert back.started["epoch"] == 6, "what it has outbid is on its disk"


@pytest.mark.parametrize("is_disk_lost", [False, True], ids=["disk kept", "disk lost"])
def test_a_wall_clock_set_back_by_a_day_keeps_nobody_out(processes: Processes, is_disk_lost: bool) -> None:
    """The machine's clock, so everybody's; a process is killed, the clock is set back, the process starts again."""
    clock = processes.folder / "clock"
    clock.write_text("0")
    members = processes.network("seed", "witness", "member", wall=str(clock))
    seed, witness, member = members
    member.kill()
    clock.write_text("-86400")
    if is_disk_lost:
        lose_tables(member.state)
    back = processes.restart(member)
    assert back.started["epoch"] == 2
    all_see_all([seed, witness, back])
    newcomer = processes.start("newcomer", seeds=[seed.address], wall=str(clock))
    all_see_all([seed, witness, back, newcomer])


# Coming back (B03, B17)

ROUNDS = 20
LOOP = """
import json, os, sys
import trio
from reachp2p import Node
from reachp2p.core.settings import Protocol
sys.path.insert(0, sys.argv[1])
from one_node import agent_of, say

async def main(rounds, protocol, options):
    for _ in range(rounds):
        async with Node(agent_of("comer"), name="comer", protocol=Protocol(**protocol), **options) as node:
            say("round", epoch=node.life.epoch, tasks=trio.lowlevel.current_statistics().tasks_living,
                files=len(os.listdir("/proc/self/fd")))
            sys.stdin.readline()

trio.run(main, *json.loads(sys.argv[2]))
"""


def test_leaving_and_joining_again_in_one_process_twenty_times(processes: Processes) -> None:
    """B03: each time a life above its own tombstone, seen by all, and nothing piles up."""
    seed, witness = processes.network("seed", "witness")
    options = {"seeds": [seed.address], "state": str(processes.folder / "comer")}
    comer = processes.script("comer", LOOP, ROUNDS, QUICK, options)
    rounds = []
    for number in range(1, ROUNDS + 1):
        rounds.append(comer.said("round", epoch=number))
        for observer, other in ((seed, "witness"), (witness, "seed")):
            observer.sees({other: ("ALIVE", 1), "comer": ("ALIVE", number)})
        comer.order("go on")
    assert comer.ends() == 0
    seed.sees({"witness": "ALIVE", "comer": ("LEFT", ROUNDS)})
    assert len({line["tasks"] for line in rounds[1:]}) == 1
    assert max(line["files"] for line in rounds[1:]) <= rounds[1]["files"] + 1
    for observer in (seed, witness):
        news = observer.news_of("comer")
        assert "DEAD" not in {line["new"] for line in news}
        assert all(tuple(before["life"]) <= tuple(after["life"]) for before, after in pairwise(news))


def test_a_newcomer_that_hears_of_a_former_life_lists_one_life_and_lets_it_expire(
    processes: Processes,
) -> None:
    """B17: the newcomer never met the former life, and holds it only by what the seed says."""
    seed, member = processes.network("seed", "member")
    member.kill()
    newcomer = processes.start("newcomer", seeds=[seed.address])
    newcomer.said("MemberChanged", name="member")
    newcomer.said("MemberChanged", name="member", new="DEAD")
    assert newcomer.call("member.wait")["code"] in (1301, 1303)

    second = processes.start("second", seeds=[seed.address])
    second.started  # noqa: B018 (waits for it)
    back = processes.restart(member)
    all_see_all([seed, newcomer, second, back])
    for observer in (seed, newcomer, second):
        agents = observer.look()["agents"]
        assert [one[1] for one in agents].count("member") == 1
        lives = [line["life"] for line in observer.news_of("member")]
        assert lives == sorted(lives), "no view goes back to the former life"
