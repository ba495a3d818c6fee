from __future__ import annotations

from itertools import pairwise
from math import log, sqrt
from statistics import mean, median, quantiles

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import ScriptedEngine, Story
from reachp2p_sim.network.conditions import DELAY_MAX, Bursts, Conditions, Shape
from reachp2p_sim.network.weather import FLIPS_MAX, RECENT_MAX, SPELLS_MAX, Spells, damage, draw_delay
from reachp2p_sim.world.world import World

from reachp2p.core.effects import SendDatagram

STILL = Conditions(delay=0.01, spread=0.0)


def story_in(conditions: Conditions, seed: int = 5) -> Story:
    return Story(World(seed=seed, conditions=conditions, engine_factory=ScriptedEngine))


def send(story: Story, source: Host, target: Host, count: int = 1, size: int = 8, every: float = 0.0) -> None:
    for number in range(count):
        story.want(source, SendDatagram(target.address, number.to_bytes(size, "big")))
        if every:
            story.world.run(every)


def numbers(story: Story, host: Host) -> list[int]:
    return [int.from_bytes(what[2], "big") for what in story.heard(host)]


# Delays


@pytest.mark.parametrize(
    ("shape", "p50", "p99"),
    [
        ("exponential", log(2), log(100)),
        # median of exp(N(mu, 1)) with mean 1 is exp(-1/2); p99 is exp(-1/2 + 2.326)
        ("lognormal", 0.6065, 6.208),
        # Lomax with alpha 2 and mean 1 has scale 1: x = (1-p)^(-1/2) - 1
        ("pareto", sqrt(2) - 1, 9.0),
    ],
)
def test_each_shape_of_delay_has_the_quantiles_of_its_distribution(
    shape: Shape, p50: float, p99: float
) -> None:
    conditions = Conditions(delay=0.002, spread=0.01, shape=shape)
    drawn = [
        draw_delay(conditions, counter * 0x9E3779B97F4A7C15 & (1 << 64) - 1) for counter in range(20_000)
    ]
    assert min(drawn) >= 0.002
    assert median(drawn) == pytest.approx(0.002 + 0.01 * p50, rel=0.03)
    assert quantiles(drawn, n=100)[98] == pytest.approx(0.002 + 0.01 * p99, rel=0.12)


def test_a_heavy_tail_is_cut_at_the_longest_delay() -> None:
    conditions = Conditions(delay=0.0, spread=5.0, shape="pareto", alpha=1.1)
    drawn = [draw_delay(conditions, counter) for counter in range(20_000)]
    assert max(drawn) == DELAY_MAX


# Bursts


def test_bursts_have_the_long_run_loss_and_the_mean_lengths_of_the_theory() -> None:
    bursts = Bursts(good=6.0, bad=2.0, loss_good=0.02, loss_bad=0.9)
    bad, spells = 0, 0
    step = 0.05
    for path in range(40):
        chain = Spells(bursts, path * 7919, 0.0)
        states = [chain.is_bad(tick * step, tick * step) for tick in range(8_000)]
        bad += sum(states)
        spells += sum(b and not a for a, b in pairwise(states))
    assert bad / (40 * 8_000) == pytest.approx(0.25, rel=0.05)
    assert bad * step / spells == pytest.approx(2.0, rel=0.06)
    assert bursts.long_run_loss == pytest.approx((6 * 0.02 + 2 * 0.9) / 8)


def test_lost_datagrams_follow_the_bursts() -> None:
    story = story_in(Conditions(delay=0.01, spread=0.0, bursts=Bursts(good=3.0, bad=1.0, loss_bad=1.0)))
    a, b = story.world.add_nodes(2)
    send(story, a, b, 6_000, every=0.1)
    story.world.run(1)
    got = numbers(story, b)
    assert len(got) / 6_000 == pytest.approx(0.75, rel=0.06)
    gaps = [(after - before - 1) * 0.1 for before, after in pairwise(got) if after > before + 1]
    # A bad spell shorter than the gap between two datagrams may be missed: what is seen has a mean above 1 s.
    assert mean(gaps) == pytest.approx(1.05, rel=0.2)
    assert story.world.network.tally.lost == 6_000 - len(got)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), looks=st.lists(st.floats(0.0, 500.0), min_size=1, max_size=50))
def test_a_spell_is_a_function_of_the_time_whoever_looks_when(seed: int, looks: list[float]) -> None:
    bursts = Bursts(good=0.9, bad=0.4)
    often, rarely = Spells(bursts, seed, 0.0), Spells(bursts, seed, 0.0)
    for tick in range(1_000):
        often.is_bad(tick * 0.5 + 60.0, tick * 0.5)  # looks ahead, as a segment that is sent again does
    fresh = Spells(bursts, seed, 0.0)
    for at in sorted(looks):
        assert rarely.is_bad(at, at) == fresh.is_bad(at, 0.0)
    assert often.is_bad(500.0, 500.0) == fresh.is_bad(500.0, 0.0)


def test_a_path_forgets_the_spells_that_have_passed() -> None:
    chain = Spells(Bursts(good=0.01, bad=0.01), 1, 0.0)
    for tick in range(10_000):
        chain.is_bad(tick * 0.01, tick * 0.01)
    assert len(chain._edges) <= SPELLS_MAX + 1


# Everything else that may become of a datagram


def test_duplicates_and_late_ones_have_their_shares() -> None:
    story = story_in(Conditions(delay=0.01, spread=0.0, duplicate=0.2, reorder=0.1, reorder_delay=0.5))
    a, b = story.world.add_nodes(2)
    send(story, a, b, 4_000, every=0.01)
    story.world.run(2)
    got = numbers(story, b)
    assert len(got) == pytest.approx(4_800, rel=0.03)
    assert set(got) == set(range(4_000))
    overtaken = sum(later < earlier for earlier, later in pairwise(got))
    assert overtaken == pytest.approx(400, rel=0.2)
    assert story.world.network.tally.duplicated == len(got) - 4_000


def test_a_damaged_datagram_arrives_with_a_few_bits_flipped_and_is_reported() -> None:
    story = story_in(Conditions(delay=0.01, spread=0.0, corrupt=0.25))
    a, b = story.world.add_nodes(2)
    reports: list[tuple[Host, bool]] = []
    story.world.network.on_damaged = lambda host, rejected: reports.append((host, rejected))
    send(story, a, b, 2_000)
    story.world.run(1)
    changed = [
        (number ^ expected).bit_count()
        for expected, number in enumerate(numbers(story, b))
        if number != expected
    ]
    assert len(changed) == story.world.network.tally.corrupted == pytest.approx(500, rel=0.15)
    assert 1 <= min(changed) <= max(changed) <= FLIPS_MAX
    assert reports == [(b, False)] * len(changed), "a scripted node counts nothing, so it rejects nothing"


def test_a_node_rejects_and_counts_what_is_damaged() -> None:
    world = World(seed=3)
    reports: list[bool] = []
    world.network.on_damaged = lambda _, rejected: reports.append(rejected)
    world.add_nodes(4)
    world.run(5)
    world.set_weather(corrupt=0.2)
    world.run(20)
    assert len(reports) > 30
    assert all(reports)


@given(data=st.binary(min_size=1, max_size=64), bits=st.integers(0, 2**64 - 1))
def test_damage_always_changes_something_and_never_the_length(data: bytes, bits: int) -> None:
    damaged = damage(data, bits)
    assert damaged != data
    assert len(damaged) == len(data)


def test_replays_bring_back_what_is_young_enough() -> None:
    story = story_in(Conditions(delay=0.01, spread=0.0, replay=0.5, replay_age=1.0))
    a, b = story.world.add_nodes(2)
    send(story, a, b, 2_000, every=0.1)
    story.world.run(1)
    got = numbers(story, b)
    assert len(got) == pytest.approx(3_000, rel=0.05)
    newest = 0
    for number in got:
        newest = max(newest, number)
        assert newest - number <= 11
    path = next(iter(story.world.network.paths.weather(a, b)._paths.values()))
    assert len(path.recent) <= RECENT_MAX


def test_a_rate_limit_spaces_datagrams_out_and_its_queue_overflows() -> None:
    story = story_in(Conditions(delay=0.0, spread=0.0, rate=1_000.0, queue_bytes=500))
    a, b = story.world.add_nodes(2)
    send(story, a, b, 10, size=100)
    story.world.run(2)
    times = story.script(b).times
    assert [time - b.steady_offset for time in times] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert story.world.network.tally.overflowed == 5


def test_what_is_larger_than_a_path_allows_vanishes() -> None:
    story = story_in(Conditions(delay=0.0, spread=0.0, size_max=100))
    a, b = story.world.add_nodes(2)
    send(story, a, b, 1, size=100)
    send(story, a, b, 1, size=101)
    story.world.run(1)
    assert len(story.heard(b)) == 1
    assert story.world.network.tally.too_large == 1


def test_weather_that_is_switched_on_shifts_nobody_elses_delay() -> None:
    """Every kind of disturbance has draws of its own: those that it spares arrive when they would have."""
    plain = Conditions(delay=0.001, spread=0.02)
    arrivals = []
    for conditions in (
        plain,
        msgspec.structs.replace(plain, duplicate=0.3),
        msgspec.structs.replace(plain, reorder=0.3),
        msgspec.structs.replace(plain, bursts=Bursts(1.0, 1.0)),
    ):
        story = story_in(conditions)
        a, b = story.world.add_nodes(2)
        send(story, a, b, 200, every=0.05)
        story.world.run(2)
        arrivals.append(set(story.script(b).times))
    without, duplicated, reordered, lossy = arrivals
    assert duplicated > without
    assert len(reordered & without) == pytest.approx(140, abs=25)
    assert lossy < without


EVERYTHING = Conditions(
    delay=0.001, spread=0.01, shape="lognormal", loss=0.05, bursts=Bursts(5.0, 1.0), duplicate=0.1, reorder=0.1,
    corrupt=0.05, replay=0.2, rate=20_000.0, queue_bytes=4_000,
)  # fmt: skip


def test_the_same_seed_has_the_same_weather_and_another_seed_another() -> None:
    digests = []
    for seed in (1, 1, 2):
        world = World(seed=seed, conditions=EVERYTHING)
        world.add_nodes(6)
        world.run(30)
        digests.append(world.trace.digest())
    assert digests[0] == digests[1] != digests[2]


# Which paths


def test_weather_with_a_name_covers_its_paths_until_it_ends() -> None:
    story = story_in(STILL)
    a, b, c = story.world.add_nodes(3)
    network = story.world.network
    network.paths.add_weather([a], [b, c], Conditions(loss=1.0), "deaf")
    network.paths.add_weather([a, c], [b], Conditions(delay=1.0), "slow")
    assert network.paths.between(a, c).loss == 1.0
    assert network.paths.between(a, b).delay == 1.0, "the later of two that cover a path holds"
    assert network.paths.between(b, a) == STILL
    network.paths.set_between(a, b, Conditions(delay=2.0))
    assert network.paths.between(a, b).delay == 2.0, "a path's own weather holds before any other"
    network.paths.set_between(a, b, None)
    network.paths.end_weather("slow")
    assert network.paths.between(a, b).loss == 1.0
    network.paths.end_weather()
    assert network.paths.between(a, b) == STILL
    assert a.odd == b.odd == c.odd == 0


def test_cuts_and_holds_end_one_by_one() -> None:
    story = story_in(STILL)
    a, b, c = story.world.add_nodes(3)
    network = story.world.network
    network.paths.cut([a], [b], "first")
    network.paths.cut([a], [c], "second")
    network.paths.hold([b], [c], "third")
    assert network.paths.names == ["first", "second", "third"]
    send(story, b, c)
    network.paths.mend("first")
    send(story, a, b)
    send(story, a, c)
    story.world.run(1)
    assert len(story.heard(b)) == 1
    assert story.heard(c) == []
    network.release("no such hold")
    assert network.paths.names == ["second", "third"]
    network.paths.mend()
    network.release("third")
    story.world.run(1)
    assert len(story.heard(c)) == 1
    assert network.paths.are_whole


# Recordings


def test_a_wiretap_keeps_what_is_sent_and_replays_it_to_anybody() -> None:
    story = story_in(STILL)
    a, b = story.world.add_nodes(2)
    send(story, a, b)
    wiretap = story.world.network.start_wiretap()
    send(story, a, b, 5)
    story.world.network.stop_wiretap()
    send(story, a, b)
    story.world.run(1)
    (c,) = story.world.add_nodes(1)
    story.heard(b)
    chance = story.world.randomness.stream("replay")
    assert wiretap.replay(chance, within=2.0) == 5
    assert wiretap.replay(chance, to=[c], limit=3) == 3
    story.world.run(3)
    assert sorted(numbers(story, b)) == [0, 1, 2, 3, 4]
    assert {what[1] for what in story.heard(c)} == {a.address}


def test_a_wiretap_drops_the_oldest_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p_sim.network.wiretap.RECORDED_MAX", 3)
    story = story_in(STILL)
    a, b = story.world.add_nodes(2)
    wiretap = story.world.network.start_wiretap()
    send(story, a, b, 5)
    assert len(wiretap) == 3
    assert wiretap.dropped == 2


# Streams


def test_streams_share_bursts_and_rates_and_lose_nothing() -> None:
    story = story_in(msgspec.structs.replace(EVERYTHING, rate=2_000.0))
    a, b = story.world.add_nodes(2)
    network = story.world.network
    took = [network.segment_delay(a, b, 0.2, 1_000) for _ in range(10)]
    assert took[-1] >= 5.0, "ten segments of 1,000 bytes at 2,000 bytes a second"
    send(story, a, b, size=1_000)
    assert network.tally.overflowed == 1, "a datagram finds the queue full of segments"


def test_a_stream_makes_no_progress_where_everything_is_lost() -> None:
    story = story_in(STILL)
    a, b = story.world.add_nodes(2)
    network = story.world.network
    assert not network.paths.is_stalled(a, b)
    network.paths.add_weather([b], [a], Conditions(loss=1.0), "black hole")
    assert network.paths.is_stalled(a, b)
    assert network.paths.is_stalled(b, a)
    network.paths.end_weather("black hole")
    network.paths.conditions = Conditions(loss=1.0)
    assert network.paths.is_stalled(a, b)


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"corrupt": 1.2}, "corrupt"),
        ({"rate": -1.0}, "rate"),
        ({"alpha": 1.0}, "alpha"),
        ({"sigma": 0.0}, "sigma"),
        ({"delay": float("inf")}, "delay"),
        ({"bursts": {"good": 0.0}}, "good"),
        ({"bursts": {"loss_bad": 2.0}}, "loss_bad"),
        ({"shape": "gamma"}, "shape"),
        ({"lost": 0.1}, "lost"),
    ],
)
def test_wrong_weather_is_refused_with_the_name_of_what_is_wrong(
    wrong: dict[str, object], names: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=names):
        msgspec.convert(wrong, Conditions)
