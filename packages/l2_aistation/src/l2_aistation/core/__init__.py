"""Pure logic: state tables, the pool, placement, policies, explanations, diagnosis, recovery.

No I/O, no clock, no randomness of its own: times and ids are passed in.
"""
