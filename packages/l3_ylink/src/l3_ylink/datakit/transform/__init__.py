"""Transform: tokeniser, Megatron files, Parquet and JSONL, instruction sets."""
