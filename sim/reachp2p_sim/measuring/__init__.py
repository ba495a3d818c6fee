"""Numbers about runs: how long things may take, which rare branches a run went through, how sure a measured number is.

budgets        bounds on times, as functions of the group and the settings
rare_branches  how often a run visited the branches that faults alone reach
confidence     confidence intervals
"""
