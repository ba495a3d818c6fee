"""What is left of runs: kept in a store, found again, run again, compared with each other, handed to other tools.

store          folders of runs, and what is written into one
lookup         a run to look at: out of the store, or run again
run_again      what a line or a folder says is to be run again
difference     two runs side by side
shiviz         a run as a log for the viewer ShiViz
environment    where a run was made
"""
