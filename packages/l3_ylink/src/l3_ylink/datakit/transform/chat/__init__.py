"""Conversations and preferences: read from any usual form, validated, written in another, rendered."""
