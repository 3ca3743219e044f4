"""What runs a model: transformers and llama.cpp in processes of their own, or any OpenAI-compatible URL."""
