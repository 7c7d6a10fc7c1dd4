"""How long grading takes, beside plain `otter run`, in one run on one machine: `make bench`."""
