"""Who grades the grader: audit of the checks by wrong and right solutions, and calibration."""
