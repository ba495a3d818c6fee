"""The simulator of reachp2p: the core that ships, in a deterministic world, with its promises checked in every run.

    from reachp2p_sim.world import World

It drives `reachp2p.core` directly and never imports the runtime or trio (docs/simulator.md).
"""
