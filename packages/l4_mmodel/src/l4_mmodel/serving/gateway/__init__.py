"""The OpenAI-compatible interface: one raw ASGI application, no framework on the data path."""
