"""Runtimes that compute, the gateway in front of them, and its limits."""
