"""The demo's verdict is read from what the processes wrote, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from reachp2p_node.demo.journal import Called, Journal, Line, Member, Routable, Served, Serving, Started, Tail
from reachp2p_node.demo.outcome import Act, View, judge

CAPABILITY = "text.summarize"
KILLED = 100.0
RESTARTED = 110.0


def member(at: float, state: str | None, name: str = "victim", epoch: int = 1) -> Member:
    return Member(at=at, name=name, epoch=epoch, incarnation=0, state=state, reason="")


def routable(at: float, *instances: tuple[str, int]) -> Routable:
    return Routable(at=at, capability=CAPABILITY, instances=list(instances))


def survivor(out: float, dead: float, back: float) -> list[Line]:
    return [
        Started(at=1, name="other", node="aa", address="127.0.0.1:1", epoch=1, process=1),
        member(2, "ALIVE"),
        member(2, "ALIVE", "third"),
        routable(3, ("victim", 1), ("third", 1)),
        member(out, "SUSPECT"),
        routable(out, ("third", 1)),
        member(dead, "DEAD"),
        member(back, "ALIVE", epoch=2),
        routable(back, ("third", 1), ("victim", 2)),
    ]


def called(at: float, code: int = 0, attempts: int = 1) -> Called:
    return Called(at=at, agent="demo/summarizer", code=code, attempts=attempts)


def good_run() -> dict[str, list[Line]]:
    return {
        "one": [
            *survivor(100.5, 104, 111),
            *[called(50 + n / 10) for n in range(200)],
            called(101, attempts=2),
        ],
        "two": survivor(100.7, 103, 111.5),
        "victim": [
            Started(at=1, name="victim", node="bb", address="127.0.0.1:1", epoch=1, process=2),
            Serving(at=90, call="a", capability=CAPABILITY),
            Served(at=91, call="a"),
            Serving(at=99.9, call="b", capability=CAPABILITY),
            Started(at=110.5, name="victim", node="bb", address="127.0.0.1:1", epoch=2, process=3),
            member(110.6, "ALIVE", "third"),
            Serving(at=112, call="c", capability=CAPABILITY),
        ],
    }


def act() -> Act:
    return Act(victim="victim", capability=CAPABILITY, killed_at=KILLED, restarted_at=RESTARTED)


def test_a_good_run_adds_up() -> None:
    outcome = judge(good_run(), act())
    assert outcome.problems == []
    assert outcome.ok
    assert (outcome.calls, outcome.calls_failed, outcome.retried, outcome.in_flight_at_kill) == (201, 0, 1, 1)
    assert outcome.seconds_until_out_of_every_table == 0.7
    assert outcome.seconds_until_suspect_anywhere == 0.5
    assert outcome.seconds_until_dead_everywhere == 4.0
    assert outcome.seconds_until_new_life_routed_to == 2.0
    assert outcome.seconds_until_back_in_every_table == 1.5
    assert outcome.epochs == {"before": 1, "after": 2}
    assert outcome.false_alarms == 0
    assert outcome.members["one"]["victim"] == View(state="ALIVE", epoch=2, incarnation=0)
    assert set(outcome.members["victim"]) == {"victim", "third"}, "only what its new life saw"


def test_a_table_that_had_lost_the_instance_before_the_kill_counts_as_zero_seconds() -> None:
    run = good_run()
    run["two"] = [line for line in run["two"] if line.at != 100.7]
    run["two"].insert(4, routable(99, ("third", 1)))
    assert judge(run, act()).seconds_until_out_of_every_table == 0.5


def without(run: dict[str, list[Line]], name: str, kind: type, since: float = 0) -> None:
    run[name] = [line for line in run[name] if not (isinstance(line, kind) and line.at >= since)]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda run: without(run, "one", Called), "0 calls, fewer than 200"),
        (lambda run: run["one"].append(called(105, code=1409)), "1 calls failed"),
        (lambda run: without(run, "victim", Serving, 99), "nothing was in flight"),
        (lambda run: run["one"].pop(), "no call was retried"),
        (lambda run: without(run, "two", Routable, 100), "seconds until out of every table: never"),
        (lambda run: without(run, "two", Member, 103), "seconds until dead everywhere: never"),
        (lambda run: without(run, "two", Routable, 111), "seconds until back in every table: never"),
        (lambda run: without(run, "victim", Serving, 111), "seconds until new life routed to: never"),
        (lambda run: without(run, "victim", Started, 110), "epoch None is not above 1"),
    ],
)
def test_whatever_was_not_shown_is_a_problem(spoil, problem: str) -> None:  # type: ignore[no-untyped-def]
    run = good_run()
    spoil(run)
    outcome = judge(run, act())
    assert not outcome.ok
    assert any(problem in one for one in outcome.problems), outcome.problems


def test_doubt_about_a_member_that_was_not_killed_is_counted() -> None:
    run = good_run()
    run["two"].append(member(105, "SUSPECT", "third"))
    assert judge(run, act()).false_alarms == 1


def test_a_journal_is_read_as_it_grows_and_a_cut_last_line_is_left(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    tail = Tail(path)
    assert tail.read() == []
    journal = Journal(path)
    journal.write(called(1))
    assert tail.read() == [called(1)]
    with path.open("ab") as file:
        file.write(b'{"type":"called","at":')
    assert tail.read() == []
    assert tail.lines == [called(1)]
    journal.close()
