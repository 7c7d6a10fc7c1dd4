"""Curves of trainings side by side."""

from typing import TYPE_CHECKING

from autograder.training.record import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_history(histories: dict[str, History]) -> "Figure":
    """Loss (solid training, dashed validation) and validation accuracy over the epochs, by name.

    The figure is not pyplot's current one: show it as the last line of a cell, or by `display`.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    # Made by pyplot, so that a notebook knows how to show it; closed, so that it shows it once.
    figure, (losses, accuracies) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    pyplot.close(figure)
    for number, (name, history) in enumerate(histories.items()):
        epochs = range(1, history.recipe.epochs + 1)
        style = {"color": f"C{number}", "marker": "."}
        losses.plot(epochs, history.train_loss, label=f"{name}, training", **style)
        losses.plot(epochs, history.validation_loss, "--", label=f"{name}, validation", **style)
        accuracies.plot(epochs, history.validation_accuracy, label=name, **style)
    for axes, quantity in ((losses, "cross-entropy loss"), (accuracies, "validation accuracy")):
        axes.set(xlabel="epoch", ylabel=quantity)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
    return figure
