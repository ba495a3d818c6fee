"""How real processes end: by signal and command, with handlers at work and a peer that is a black hole (B70)."""

from __future__ import annotations

import json
import signal
import time

from reachp2p.runtime.run import EXIT_CLEAN, EXIT_FORCED
from tests.node.processes import QUICK, Member, Processes, Program

DRAIN = 3.0
FORCED = 3.0
"""Seconds that forcing an end takes at most: the patience of the program and a busy machine."""


def ends_in(member: Program) -> tuple[int, float]:
    """Its exit code, and the seconds until it ended."""
    begun = time.monotonic()
    code = member.ends()
    return code, time.monotonic() - begun


def test_what_a_handler_is_at_is_finished_and_its_caller_has_the_result(processes: Processes) -> None:
    caller, callee = processes.network("caller", "callee", drain_timeout=DRAIN)
    caller.order("call", capability="callee.wait", params={"seconds": 0.8})
    callee.said("waiting")
    callee.signal(signal.SIGTERM)
    code, seconds = ends_in(callee)
    assert code == EXIT_CLEAN
    assert seconds < DRAIN
    answer = caller.said("answer")
    assert answer.get("value") == "callee has waited", (answer, caller.lines, callee.lines)
    caller.sees({"callee": ("LEFT", 1)})
    assert callee.said("DrainFinished")["unfinished"] == 0


def test_a_handler_that_resists_is_cut_off_at_the_deadline_and_its_caller_is_told(
    processes: Processes,
) -> None:
    caller, callee = processes.network("caller", "callee", drain_timeout=0.5)
    caller.order("call", capability="callee.resist", timeout=15)
    callee.said("resisting")
    callee.signal(signal.SIGTERM)
    code, seconds = ends_in(callee)
    assert code == EXIT_FORCED
    assert 0.5 <= seconds < 0.5 + FORCED
    assert "did not end in time and was forced to" in callee.errors
    assert caller.said("answer")["code"] in (1409, 1411), "not silence until the call's own deadline"
    caller.sees({"callee": ("LEFT", 1)})


def test_a_second_signal_forces(processes: Processes) -> None:
    caller, callee = processes.network("caller", "callee", drain_timeout=60.0)
    caller.order("call", capability="callee.resist", timeout=15)
    callee.said("resisting")
    callee.signal(signal.SIGTERM)
    caller.said("RecordChanged", agent="test/callee", present=False)
    time.sleep(0.3)
    assert callee.process.poll() is None, "it waits for its handler"
    callee.signal(signal.SIGTERM)
    code, seconds = ends_in(callee)
    assert code == EXIT_FORCED
    assert seconds < FORCED


# A black hole: the process is stopped, its kernel still takes connections and bytes


def stopped(member: Member) -> Member:
    member.signal(signal.SIGSTOP)
    return member


def test_a_peer_that_is_a_black_hole_delays_no_end(processes: Processes) -> None:
    leaver, peer, hole = processes.network("leaver", "peer", "hole", drain_timeout=DRAIN)
    stopped(hole)
    leaver.signal(signal.SIGTERM)
    code, seconds = ends_in(leaver)
    assert code == EXIT_CLEAN
    assert seconds < DRAIN
    peer.said("MemberChanged", name="leaver", new="LEFT")


def test_a_handler_at_work_and_a_call_into_a_black_hole_end_within_the_deadline(processes: Processes) -> None:
    """All at once: a handler that ends by itself, a call that will not, links that take nothing."""
    leaver, peer, hole = processes.network(
        "leaver", "peer", "hole", drain_timeout=DRAIN, protocol={**QUICK, "suspicion_alpha": 20.0}
    )
    stopped(hole)
    leaver.order("call", capability="hole.wait", timeout=30)
    peer.order("call", capability="leaver.wait", params={"seconds": 0.5})
    leaver.said("waiting")
    leaver.signal(signal.SIGTERM)
    code, seconds = ends_in(leaver)
    assert seconds < DRAIN + FORCED
    assert code == EXIT_FORCED, "a call was given up, and the code says so"
    assert "forced" not in leaver.errors, "it ended by itself at its deadline"
    assert peer.said("answer")["value"] == "leaver has waited"
    peer.said("MemberChanged", name="leaver", new="LEFT")


# By command


def test_leave_by_command_is_a_clean_end_that_others_hear_of(processes: Processes) -> None:
    peer, leaver = processes.network("peer", "leaver")
    peer.order("call", capability="leaver.wait", params={"seconds": 0.5})
    leaver.said("waiting")
    code, out, err = processes.run("leave", "--state", str(leaver.state), "--json")
    answer = json.loads(out)
    assert (code, answer["left"], answer["forced"]) == (0, True, False), err
    assert answer["pid"] == leaver.process.pid
    assert leaver.ends() == EXIT_CLEAN
    assert peer.said("answer")["value"] == "leaver has waited"
    peer.sees({"leaver": ("LEFT", 1)})
    code, out, err = processes.run("leave", "--state", str(leaver.state))
    assert (code, out) == (1, "")
    assert "no node runs in" in err


def test_leave_by_command_has_a_deadline_too(processes: Processes) -> None:
    peer, leaver = processes.network("peer", "leaver")
    peer.order("call", capability="leaver.resist", timeout=15)
    leaver.said("resisting")
    code, out, err = processes.run("leave", "--state", str(leaver.state), "--timeout", "0.5", "--json")
    answer = json.loads(out)
    assert (code, answer["left"], answer["forced"]) == (1, True, True), err
    assert answer["seconds"] < 0.5 + FORCED
    assert leaver.ends() == EXIT_FORCED
    assert "did not end in time and was forced to" in leaver.errors
    peer.sees({"leaver": ("LEFT", 1)})
