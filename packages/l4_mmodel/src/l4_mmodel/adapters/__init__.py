"""The only place that imports a lower layer, each module one of them, and only its api."""
