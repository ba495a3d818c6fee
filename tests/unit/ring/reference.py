"""Placement as docs/protocol/placement.md describes it, written a second time, naively, with the standard library.

It shares no line with the package, so that the golden vectors do not only repeat what the package does.

    python -IS reference.py            print the vectors (made anew) as JSON
    python -IS reference.py --write    write them to golden.json: only with a new placement version
"""

import hashlib
import json
import pathlib
import sys

VERSION = 1
VIRTUAL_NODES = 150
AGENTS = ("nlp/summarizer", "a/b", "legal-eu/contract_reader")
WEIGHTS = (100, 100, 10, 1000, 33, 250)
KEYS = ["", "a", "user:42", "Straße 7", "\u4f1a\u8bdd", "\U0001f600", "\ud800", "x" * 300]
KEYS += [f"key-{number}" for number in range(1_000 - len(KEYS))]


def digest(person, size, *parts):
    return hashlib.blake2b(
        VERSION.to_bytes(2, "big") + b"".join(parts), digest_size=size, person=person
    ).digest()


def utf8(text):
    return text.encode("utf-8", "surrogatepass")


def token_count(weight):
    return max(1, (VIRTUAL_NODES * weight + 50) // 100)


def tokens(node, agent, count):
    found = []
    for block in range((count + 7) // 8):
        block_digest = digest(b"reachp2p token", 64, node, utf8(agent), block.to_bytes(4, "big"))
        found += [int.from_bytes(block_digest[start : start + 8], "big") for start in range(0, 64, 8)]
    return found[:count]


def position(key):
    return int.from_bytes(digest(b"reachp2p key", 8, utf8(key)), "big")


def owner(circle, key):
    at = position(key)
    return next((instance for token, instance in circle if token >= at), circle[0][1])


def preference(circle, key):
    at = position(key)
    order = []
    for _, instance in [e for e in circle if e[0] >= at] + [e for e in circle if e[0] < at]:
        if instance not in order:
            order.append(instance)
    return order


def fingerprint(instances):
    parts = [VIRTUAL_NODES.to_bytes(4, "big"), len(instances).to_bytes(8, "big")]
    for (node, agent), weight in sorted(instances.items()):
        parts += [node, weight.to_bytes(2, "big"), len(utf8(agent)).to_bytes(2, "big"), utf8(agent)]
    return digest(b"reachp2p ring", 8, *parts).hex()


def vectors():
    instances = {}
    for number in range(20):
        node = hashlib.sha256(b"node %d" % number).digest()
        instances[node, AGENTS[number % len(AGENTS)]] = WEIGHTS[number % len(WEIGHTS)]
    named = sorted(instances)
    circle = sorted(
        (token, instance)
        for instance, weight in instances.items()
        for token in tokens(*instance, token_count(weight))
    )
    return {
        "placement_version": VERSION,
        "virtual_nodes": VIRTUAL_NODES,
        "instances": [
            {
                "node": instance[0].hex(),
                "agent": instance[1],
                "weight_percent": instances[instance],
                "token_count": token_count(instances[instance]),
                "first_tokens": [f"{token:016x}" for token in tokens(*instance, 9)],
            }
            for instance in named
        ],
        "tokens": len(circle),
        "tokens_sha256": hashlib.sha256(
            b"".join(token.to_bytes(8, "big") for token, _ in circle)
        ).hexdigest(),
        "fingerprint": fingerprint(instances),
        "fingerprint_of_none": fingerprint({}),
        "keys": KEYS,
        "positions": [f"{position(key):016x}" for key in KEYS],
        "owners": [named.index(owner(circle, key)) for key in KEYS],
        "preference_lists": [[named.index(i) for i in preference(circle, key)] for key in KEYS[:8]],
    }


if __name__ == "__main__":
    made = json.dumps(vectors(), ensure_ascii=True)
    if "--write" in sys.argv:
        text = made.replace(', {"node"', ',\n{"node"').replace('], "', '],\n"')
        pathlib.Path(__file__).with_name("golden.json").write_text(text + "\n", encoding="ascii")
    else:
        print(made)
