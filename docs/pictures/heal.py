"""Draws docs/pictures/heal.svg: what every node believes of all the others while a network is cut and heals.

    python docs/pictures/heal.py > docs/pictures/heal.svg

One row a node; at each moment its height is split by what the node holds the others for. The run is the simulator's, so
it is the protocol that ships; the same seed draws the same picture.
"""

from __future__ import annotations

from itertools import groupby

from reachp2p_sim.world.world import World

from reachp2p.core.events import MemberState

NODES, LEFT, SEED = 16, 10, 7
START, CUT, HEAL, KILL, RESTART, END = 4.0, 10.0, 55.0, 78.0, 86.0, 96.0
STEP = 0.25
ROW, GAP, X0, Y0, WIDTH = 15, 4, 52, 62, 900
COLOURS = {"alive": "#2f9e6e", "suspect": "#e8a33d", "dead": "#c8503c"}


def sample() -> list[list[tuple[int, int, int]]]:
    """For each node and step: how many others it holds ALIVE, SUSPECT and DEAD."""
    world = World(seed=SEED)
    hosts = world.add_nodes(NODES, within=START)
    moments = sorted((
        (CUT, lambda: world.partition(hosts[:LEFT], hosts[LEFT:])),
        (HEAL, world.heal),
        (KILL, lambda: world.crash(hosts[3])),
        (RESTART, lambda: world.restart(hosts[3])),
    ), key=lambda moment: moment[0])  # fmt: skip
    rows: list[list[tuple[int, int, int]]] = [[] for _ in hosts]
    for step in range(int(END / STEP)):
        while moments and moments[0][0] <= step * STEP:
            moments.pop(0)[1]()
        world.run(STEP)
        for row, host in zip(rows, hosts, strict=True):
            states = [m.state for m in host.view.members.values() if m is not None] if host.is_running else []
            row.append(
                tuple(states.count(s) for s in (MemberState.ALIVE, MemberState.SUSPECT, MemberState.DEAD))
            )  # type: ignore[arg-type]
    return rows


def draw(rows: list[list[tuple[int, int, int]]]) -> str:
    """The picture as SVG."""
    scale = WIDTH / END
    height = Y0 + NODES * (ROW + GAP) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {X0 + WIDTH + 20} {height}" '
        'font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="#fbfaf7"/><text x="{X0}" y="20" font-size="15" font-weight="600" '
        f'fill="#222">What {NODES} nodes believe of each other</text>',
    ]
    for i, (name, text) in enumerate((("alive", "ALIVE"), ("suspect", "SUSPECT"), ("dead", "DEAD"))):
        x = X0 + WIDTH - 260 + i * 92
        out.append(f'<rect x="{x}" y="10" width="12" height="12" rx="2" fill="{COLOURS[name]}"/>')
        out.append(f'<text x="{x + 17}" y="20" fill="#444">{text}</text>')
    body = NODES * (ROW + GAP)
    for at, until, label in (
        (CUT, HEAL, f"cut in two: {LEFT} | {NODES - LEFT}"),
        (KILL, RESTART, "n03 killed"),
    ):
        x, width = X0 + at * scale, (until - at) * scale
        out.append(f'<rect x="{x:.1f}" y="{Y0 - 8}" width="{width:.1f}" height="{body + 8}" fill="#e9e5da"/>')
        out.append(f'<text x="{x + 4:.1f}" y="{Y0 - 14}" fill="#555">{label}</text>')
    for at, label in ((HEAL, "healed"), (RESTART, "started again")):
        out.append(f'<text x="{X0 + at * scale + 4:.1f}" y="{Y0 - 14}" fill="#555">{label}</text>')
    for index, row in enumerate(rows):
        y = Y0 + index * (ROW + GAP)
        out.append(f'<text x="{X0 - 8}" y="{y + 12}" text-anchor="end" fill="#666">n{index:02d}</text>')
        step = 0
        for counts, run in groupby(row):
            length = len(list(run))
            x, width, top = X0 + step * STEP * scale, length * STEP * scale, float(y)
            for name, count in zip(COLOURS, counts, strict=True):
                tall = ROW * count / (NODES - 1)
                if count:
                    out.append(
                        f'<rect x="{x:.1f}" y="{top:.1f}" width="{width + 0.3:.1f}" height="{tall:.1f}" '
                        f'fill="{COLOURS[name]}"/>'
                    )
                top += tall
            step += length
    for second in range(0, int(END) + 1, 10):
        x, y = X0 + second * scale, Y0 + body + 14
        out.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="#666">{second} s</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(draw(sample()), end="")
