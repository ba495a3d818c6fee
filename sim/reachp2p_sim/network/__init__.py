"""What lies between machines: directed paths, their weather, cuts, links, translators, and somebody who listens.

network        who has which address, and datagrams
paths          which paths are cut or held, and the weather of each
links          ordered streams of frames, as TCP below a WebSocket
conditions     the weather of a path as data; `weather` what it does to what is sent
partition_shapes   which paths a partition cuts, and patterns of cuts in time
gateways       address translators and firewalls
wiretap        datagrams that somebody keeps, to send them again
handing        `codec=off`: messages handed over as they are
"""
