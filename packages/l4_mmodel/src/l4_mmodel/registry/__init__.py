"""Models, versions, aliases and data sets over content-addressed files."""
