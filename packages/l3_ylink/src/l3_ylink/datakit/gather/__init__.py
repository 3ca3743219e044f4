"""Gather: from an input folder to a fixed list of blocks of documents."""
