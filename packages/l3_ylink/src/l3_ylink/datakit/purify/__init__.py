"""Purify: Unicode, mojibake, language, personal data, duplicates, contamination."""
