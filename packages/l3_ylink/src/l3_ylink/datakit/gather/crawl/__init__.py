"""A polite crawler: sites to WARC files, within robots.txt, delays, budgets and the domains it was given."""
