"""Reference solution of the assignment cnn_vs_fnn.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: images (B, 1, H, W), logits (B, 10).
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from autograder.data import Digits
from autograder.training import History, Recipe, fit, seed_everything


def conv_output_size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Height (or width) of a convolution's output, all in pixels."""
    # BEGIN SOLUTION
    return (size + 2 * padding - kernel) // stride + 1
    # END SOLUTION


def pool_output_size(size: int, kernel: int, stride: int | None = None, padding: int = 0) -> int:
    """Height (or width) of a pooling's output; without a stride it is the kernel's size."""
    # BEGIN SOLUTION
    stride = kernel if stride is None else stride
    return conv_output_size(size, kernel, stride, padding)
    # END SOLUTION


def global_average_pool(maps: Tensor) -> Tensor:
    """Mean of every channel: maps (B, C, H, W) -> (B, C)."""
    # BEGIN SOLUTION
    return maps.mean(dim=(2, 3))
    # END SOLUTION


class CNN(nn.Module):
    """Classify images (B, 1, 28, 28) with convolutions; logits (B, 10)."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=5),  # (B, 8, 24, 24)
            nn.ReLU(),
            nn.MaxPool2d(2),  # (B, 8, 12, 12)
            nn.Conv2d(8, 16, kernel_size=5),  # (B, 16, 8, 8)
            nn.ReLU(),
            nn.MaxPool2d(2),  # (B, 16, 4, 4)
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),  # (B, 256)
            nn.Linear(256, 62),
            nn.ReLU(),
            nn.Linear(62, 10),  # (B, 10)
        )
        # END SOLUTION

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 1, 28, 28) -> logits (B, 10)."""
        # BEGIN SOLUTION
        logits: Tensor = self.classifier(self.features(images))
        return logits
        # END SOLUTION


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters of a model."""
    # BEGIN SOLUTION
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
    # END SOLUTION


class FNN(nn.Module):
    """Classify images (B, 1, 28, 28) with linear layers alone; logits (B, 10)."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.layers = nn.Sequential(
            nn.Flatten(),  # (B, 784)
            nn.Linear(784, 25),
            nn.ReLU(),
            nn.Linear(25, 10),  # (B, 10)
        )
        # END SOLUTION

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 1, 28, 28) -> logits (B, 10)."""
        # BEGIN SOLUTION
        logits: Tensor = self.layers(images)
        return logits
        # END SOLUTION


def train_cnn(digits: Digits, recipe: Recipe) -> tuple[nn.Module, History]:
    """Seed, build and train the convolutional network."""
    seed_everything(recipe.seed)
    cnn = CNN()  # SOLUTION
    cnn_history = fit(cnn, digits.train, digits.validation, recipe)  # SOLUTION
    return cnn, cnn_history


def train_fnn(digits: Digits, recipe: Recipe) -> tuple[nn.Module, History]:
    """Seed, build and train the feed-forward network."""
    seed_everything(recipe.seed)
    fnn = FNN()  # SOLUTION
    fnn_history = fit(fnn, digits.train, digits.validation, recipe)  # SOLUTION
    return fnn, fnn_history


def compare(cnn_history: History, fnn_history: History) -> Figure:
    """Validation accuracy of both networks, epoch by epoch, in one panel."""
    figure, axes = plt.subplots(figsize=(6, 4))
    # BEGIN SOLUTION
    for name, history in {"CNN": cnn_history, "FNN": fnn_history}.items():
        epochs = torch.arange(1, len(history.validation_accuracy) + 1)
        axes.plot(epochs, history.validation_accuracy, marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation accuracy")
    axes.legend()
    # END SOLUTION
    return figure
