"""Steps: what a recipe is made of.  A step is the same object in a recipe, in a worker and in a page."""
