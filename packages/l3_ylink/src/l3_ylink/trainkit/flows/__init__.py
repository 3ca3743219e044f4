"""Training programs: each runs as one rank of a job, `python -m l3_ylink.trainkit.flows.NAME`."""
