"""Where a training runs and from which seed."""

import os
import random

import numpy as np
import torch

DEVICES = ("auto", "cpu", "cuda")


def seed_everything(seed: int) -> None:
    """Seed random, NumPy and PyTorch (CPU and every GPU), and make cuDNN deterministic.

    Raises:  ValueError: seed outside 0 to 2**32 - 1.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def device(name: str = "auto") -> torch.device:
    """The device to train on: "auto" takes a GPU if there is one.

    The environment variable AUTOGRADER_DEVICE, if set, decides what "auto" means.

    Raises:  ValueError: unknown name. RuntimeError: "cuda" on a machine without a CUDA GPU.
    """
    origin = "AUTOGRADER_DEVICE" if name == "auto" else "device"
    if name == "auto":
        name = os.environ.get("AUTOGRADER_DEVICE") or name
    if name not in DEVICES:
        raise ValueError(f"{origin} must be one of {', '.join(DEVICES)}, got {name!r}.")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise RuntimeError(
            f"{origin} is 'cuda', but PyTorch sees no CUDA GPU here. Use 'auto' or 'cpu', or "
            "install a PyTorch build with CUDA and check that nvidia-smi lists the GPU."
        )
    return torch.device(name if name != "auto" else "cuda" if has_cuda else "cpu")
