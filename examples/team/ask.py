"""Ask the team for reports in one session, then show where the time went: `python examples/team/ask.py [TOPIC …]`."""

from __future__ import annotations

import sys

import trio
from agents import SEEDS

from reachp2p import CallFailed, Node

TOPICS = ("gossip", "failure detection")


async def main() -> None:
    failed = False
    async with Node(name="asker", seeds=SEEDS) as node:
        await node.wait_for("report.write", timeout=10)
        with node.session() as session:
            for topic in sys.argv[1:] or TOPICS:
                try:
                    report = await node.call("report.write", {"topic": topic})
                except CallFailed as failure:
                    failed = True
                    print(f"{topic}: {failure}")
                else:
                    print(
                        f"{topic}: {report['text']}\n  {report['sources']} passages, checked: {report['checked']}"
                    )
        trace = await node.trace(session)
        print(f"\n{len(trace.hops)} hops; whoever wants to see them: reachp2p trace {session}")
    sys.exit(failed)


trio.run(main)
