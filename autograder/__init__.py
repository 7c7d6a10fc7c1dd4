"""Autograded exercises for deep learning: checks, data and training for students, grading for teachers."""
