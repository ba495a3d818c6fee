"""A deterministic world: virtual time, chance from one seed, what is done to it, and what it knows to be true.

    world          the world itself: time that is run, steps that are performed, who is judged
    inventory      its machines, by number, name and key; `reports` who is told of what they report
    acts           what a story can do to it, as methods that read like one
    timeline       virtual time; `randomness` all chance of a run; `trace` every event in order, as one digest
    observer       who wants to see what travels without being noticed
    history        what was done to the world and when, for checkers
    signing        signers; `signed_facts` everything that any key has signed, for checkers
    agreement      what a story waits for: views that agree
    violation      the exception of a promise that was broken

Machines are in `machines`, what lies between them in `network`, and the steps in `steps`.
"""
