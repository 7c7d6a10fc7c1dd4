"""Reference solutions: ordinary modules, from which the master notebooks are made."""
