"""What runs inside the sandbox: one notebook and its tests. Started by path, never imported."""
