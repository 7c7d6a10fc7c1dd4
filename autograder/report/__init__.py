"""Files that people read, made from the gradebook alone: grades.csv and a feedback page a student."""
