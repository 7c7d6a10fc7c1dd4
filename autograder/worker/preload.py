"""What every job would import first, imported before the first job.

No tensor operation that starts threads, no backward pass and no look for a GPU: these would leave
something in the process that a fork can't copy. Nothing is drawn from a random generator.
"""

import importlib

MODULES = (
    "numpy", "torch", "torch.nn", "torch.optim", "torch.utils.data", "torchsummary", "matplotlib",
    "matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.font_manager", "tqdm.auto",
    "IPython.core.interactiveshell", "nbformat", "otter", "otter.test_files",
)  # fmt: skip


def preload() -> None:
    """Import the modules, and what the first step of an optimizer imports."""
    for name in MODULES:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.Adam([parameter]).step()
