"""Which files may come in, who may call, and the proof of both."""
