"""Y-FTKit: fine-tunes and aligns models."""
