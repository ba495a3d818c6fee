from __future__ import annotations

from reachp2p_sim.world.randomness import Randomness, fraction, mix, step


def test_a_stream_depends_on_seed_and_name_alone() -> None:
    first, again, other = Randomness(7), Randomness(7), Randomness(8)
    again.stream("something", "else").random()
    assert first.stream("rng", "n01", 1).random() == again.stream("rng", "n01", 1).random()
    assert first.stream("rng", "n01", 1).random() != other.stream("rng", "n01", 1).random()


def test_names_are_not_glued_together() -> None:
    randomness = Randomness(7)
    assert randomness.number("n1", 1) != randomness.number("n11")
    assert randomness.number("a", "bc") != randomness.number("ab", "c")


def test_the_numbers_of_a_seed_are_pinned() -> None:
    assert Randomness(7).number("path", 0, 1) == 17_673_165_476_176_257_811


def test_entropy_has_the_size_asked_for_and_never_repeats() -> None:
    entropy = Randomness(7).entropy("entropy", "n00", 1)
    tokens = [entropy.token(16) for _ in range(1_000)]
    assert {len(token) for token in tokens} == {16}
    assert len(set(tokens)) == 1_000


def test_mixed_counters_are_spread_evenly() -> None:
    counter, buckets = Randomness(1).number("path", 0, 1), [0] * 10
    for _ in range(10_000):
        counter = step(counter)
        value = fraction(mix(counter))
        assert 0.0 <= value < 1.0
        buckets[int(value * 10)] += 1
    assert min(buckets) > 900
    assert max(buckets) < 1_100
