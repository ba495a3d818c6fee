"""What the retriever knows: a few passages about gossip protocols, written for this example."""

from __future__ import annotations

PASSAGES: dict[str, list[str]] = {
    "gossip": [
        "A gossip protocol spreads news the way rumours spread. Every node tells a few others what it "
        "has heard, and they tell a few more. After a handful of rounds everybody knows.",
        "Gossip needs no leader and no list of who must be told. A message that is lost costs little, "
        "because the same news arrives by another way. The price is that nobody knows when exactly the "
        "last one has heard it.",
        "News should end some day. Each node repeats an update only so many times, and the number grows "
        "with the logarithm of the group, so that a quiet network is silent.",
    ],
    "failure detection": [
        "A failure detector asks others whether they are alive and believes them dead when they do not "
        "answer. It can be quick or right, and seldom both.",
        "An indirect probe asks some other nodes to try as well. If one of them gets an answer, the path "
        "was broken and not the node.",
        "A node that is slow itself sees others as slow. A good detector doubts itself first and gives "
        "everybody more time when its own timers are late.",
    ],
    "consistent hashing": [
        "Consistent hashing puts nodes and keys on a ring. A key belongs to the next node on the ring, "
        "so when a node comes or goes only the keys beside it move.",
        "One position for each node makes unequal shares. With a hundred and fifty virtual positions "
        "each, the shares differ by less than a tenth.",
    ],
}
"""By topic."""
