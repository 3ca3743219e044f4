"""The only place that imports a lower layer, and only its api."""
