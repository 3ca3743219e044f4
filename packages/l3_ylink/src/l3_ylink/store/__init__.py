"""What YLink keeps in folders: the shelf of data sets, plans and runs."""
