"""A sample class."""
