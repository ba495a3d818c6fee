"""Many runs: scenarios times points of a grid times seeds, on all cores or on a Dask cluster, kept as they finish.

    plan       what is run, and in which order it is reported
    folder     where finished runs are kept, durably, so that a campaign can go on after a kill
    pool       processes of this machine that run it
    cluster    workers of a Dask cluster that run it
    summary    rates with their intervals, spreads, and the seeds worth looking at
    conduct    all of it together

Each run depends on its configuration alone, so the order in which runs finish is free and never seen in the results.
"""

from __future__ import annotations
