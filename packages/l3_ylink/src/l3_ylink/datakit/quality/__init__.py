"""Quality: signals of a text, and the rules that judge them."""
