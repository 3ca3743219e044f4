"""The pages' words in Chinese."""

MESSAGES: dict[str, str] = {}
