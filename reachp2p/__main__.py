"""`python -m reachp2p` is `reachp2p`."""

from reachp2p._scripts import node_main

node_main()
