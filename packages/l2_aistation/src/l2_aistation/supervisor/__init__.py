"""What runs on a node for one job: a process that starts its ranks, watches them and ends them.

The supervisor outlives the agent that started it (`runtime` is the agent's side).  Everything that
must survive is on disk, in the job's folder: commands as files, events as a journal.
"""
