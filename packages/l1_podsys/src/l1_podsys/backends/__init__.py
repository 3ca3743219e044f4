"""Ways to reach hosts, to set them, to fetch packages, and to keep runs."""
