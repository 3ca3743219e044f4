"""A session on its node: the server that people come in by, and the judge of whether it is used.

Use is what kernels, terminals, programs and accelerators do.  A browser that is only left open is none,
and a kernel that computes while nobody looks is.
"""
