"""Y-DataKit: gather, extract, purify, judge and transform text."""
