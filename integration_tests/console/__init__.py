"""One console over the five layers: their applications mounted at /l0 … /l4, one login."""
