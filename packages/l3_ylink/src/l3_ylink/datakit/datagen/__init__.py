"""DataGen: instructions made by a language model, judged, verified, and kept with all that was rejected."""
