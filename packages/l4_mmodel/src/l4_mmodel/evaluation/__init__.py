"""Measuring models: tasks, scoring, statistics, latency, stability."""
