"""Autograded exercises for deep learning: checks, data, training; and grading for teachers."""
