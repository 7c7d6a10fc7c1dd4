"""Files that people read, made from the gradebook alone."""
