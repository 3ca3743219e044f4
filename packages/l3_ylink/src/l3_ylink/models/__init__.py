"""Models as folders: weights in safetensors, tokenizer, `model-manifest.json`."""
