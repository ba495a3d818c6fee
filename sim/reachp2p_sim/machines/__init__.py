"""One simulated machine: its clocks, its disk, its processor, and the process on it with the core's engine in it.

host           the machine: what outlives its processes
process        one process: an engine, and what drives it
clock, disk, processor    what it has, and how that fails
view           what its process has told its application about the others
workload       agents that it offers, and callers
listening      who is told of all that it hears and sends
next_release   a process of the next release of the node program
scripted       a process that does what a test says, without a protocol
"""
