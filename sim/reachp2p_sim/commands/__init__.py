"""The commands of `reachp2p-sim`, one module each; `cli` registers them."""
