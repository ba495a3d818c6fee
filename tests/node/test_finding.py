"""Real processes never stop looking for each other: partitions, frozen processes, names that change (B12, B56)."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from tests.node.processes import QUICK, Member, Processes, all_see_all

SEED_NAME = "seed.test"
OWN_EPOCH, HEAD_AND_RECORD = 1, 2
"""Rows on the disk of a node: one, and two for each other node."""


def cut(left: Sequence[Member], right: Sequence[Member]) -> None:
    """Nothing passes between the two sides any more."""
    for side, others in ((left, right), (right, left)):
        for member in side:
            member.order("cut", addresses=[other.address for other in others])


def heal(members: Sequence[Member]) -> None:
    for member in members:
        member.order("cut", addresses=[])


# Partitions (B12)


def test_two_halves_that_have_buried_each_other_merge_without_help(processes: Processes) -> None:
    members = processes.network("n1", "n2", "n3", "n4", "n5", "n6")
    left, right = members[:3], members[3:]
    cut(left, right)
    for side, others in ((left, right), (right, left)):
        for member in side:
            alive = {other.name: "ALIVE" for other in side if other is not member}
            member.sees({**alive, **{other.name: "DEAD" for other in others}})
    assert left[0].call("n2.wait")["value"] == "n2 has waited", "each half goes on working"
    assert left[0].call("n5.wait")["code"] == 1303
    assert right[0].call("n5.wait")["value"] == "n5 has waited"
    heal(members)
    all_see_all(members)
    assert left[0].call("n5.wait")["value"] == "n5 has waited"


def test_a_frozen_process_that_all_have_buried_comes_back_when_it_goes_on(processes: Processes) -> None:
    """One alone against the rest: a process that is stopped, as by a debugger or a paused machine."""
    members = processes.network("n1", "n2", "n3", "n4")
    *others, frozen = members
    frozen.signal(signal.SIGSTOP)
    for member in others:
        member.sees({**{o.name: "ALIVE" for o in others if o is not member}, "n4": "DEAD"})
    frozen.signal(signal.SIGCONT)
    all_see_all(members)
    assert others[0].call("n4.wait")["value"] == "n4 has waited"
    assert "DEAD" not in {line["new"] for line in frozen.lines if line["is"] == "MemberChanged"}, (
        "it doubts itself first"
    )


def test_seed_and_all_others_lost_at_once_find_each_other_by_what_is_on_their_disks(
    processes: Processes,
) -> None:
    """All are killed; those that come back were given no seed, only what they knew."""
    members = processes.network("n1", "n2", "n3", "n4")
    for member in members:
        while member.look()["diagnostics"].get("storage.written", 0) < OWN_EPOCH + 3 * HEAD_AND_RECORD:
            time.sleep(0.1)
    ports = [int(member.address.rpartition(":")[2]) for member in members]
    for member in members:
        member.kill()
    back = [
        processes.restart(member, seeds=[], port=port)
        for member, port in zip(members[1:], ports[1:], strict=True)
    ]
    for member in back:
        for other in back:
            if other is not member:
                member.said("MemberChanged", name=other.name, new="ALIVE", life=other.said("Started")["life"])


# Names (B56)


def test_a_name_that_is_missing_at_the_start_and_one_that_is_stale_lead_together_once_they_are_right(
    processes: Processes,
) -> None:
    """All start while the name leads nowhere or to the wrong place: each is alone until it is corrected."""
    hosts = processes.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    options = {"hosts": str(hosts), "resolve_interval": 0.5}
    seed = processes.start("seed", **options)
    port = int(seed.address.rpartition(":")[2])
    named = {"seeds": [f"{SEED_NAME}:{port}"], **options}
    early = processes.start("early", **named)
    early.started  # noqa: B018 (waits for it)
    hosts.write_text(f"127.0.0.2 {SEED_NAME}\n")  # where nobody listens
    stale = processes.start("stale", **named)
    stale.said("SeedUnreached", address=["127.0.0.2", port])
    early.said("SeedUnreached", address=["127.0.0.2", port])
    assert (seed.views(), early.views(), stale.views()) == ({}, {}, {})
    assert "seed seed.test does not resolve" in early.errors
    hosts.write_text(f"127.0.0.2 {SEED_NAME}\n127.0.0.1 {SEED_NAME}\n")  # all addresses of a name are tried
    all_see_all([seed, early, stale])
    assert [member.started["epoch"] for member in (seed, early, stale)] == [1, 1, 1], "without a restart"


def test_all_restart_while_the_name_is_stale_and_the_seed_has_moved(processes: Processes) -> None:
    hosts = processes.folder / "hosts"
    hosts.write_text(f"127.0.0.1 {SEED_NAME}\n")
    options = {"hosts": str(hosts), "resolve_interval": 0.5}
    seed = processes.start("seed", host="127.0.0.1", **options)
    port = int(seed.address.rpartition(":")[2])
    members = [processes.start(name, seeds=[f"{SEED_NAME}:{port}"], **options) for name in ("n2", "n3")]
    all_see_all([seed, *members])
    for member in (seed, *members):
        member.kill()
        for file in member.state.glob("state.db*"):
            file.unlink()  # nor do they remember each other
    seed = processes.restart(seed, host="127.0.0.2", port=port)
    members = [processes.restart(member) for member in members]
    for member in members:
        member.said("SeedUnreached", address=["127.0.0.1", port], code=1701)
    hosts.write_text(f"127.0.0.2 {SEED_NAME}\n")
    all_see_all([seed, *members])


def test_a_real_name_is_resolved_by_the_system(processes: Processes) -> None:
    seed = processes.start("seed")
    port = int(seed.address.rpartition(":")[2])
    member = processes.start("member", seeds=[f"localhost:{port}"], protocol=QUICK)
    all_see_all([seed, member])
