"""Engines: what starts tasks on nodes.  `local` on this machine, `agent` through Celery on many."""
