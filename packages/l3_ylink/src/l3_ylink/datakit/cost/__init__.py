"""What a run cost, step by step, and what the same recipe would cost on a cluster."""
