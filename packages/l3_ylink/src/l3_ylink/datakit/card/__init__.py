"""The data set card: what is in it, under which licences, how it was made; for people and for machines."""
