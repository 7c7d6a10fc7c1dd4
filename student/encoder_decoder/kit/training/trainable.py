"""Can this model be trained? Refusals that say what to change."""

from torch import Tensor, nn

from autograder.training.evaluation import evaluating, logits_of


def require_trainable(model: object) -> None:
    """Refuse what is no model, or has nothing to train.

    Raises:  TypeError, ValueError.
    """
    if isinstance(model, type):
        raise TypeError(f"fit got the class {model.__name__}: make a model, {model.__name__}().")
    if not isinstance(model, nn.Module):
        raise TypeError(f"fit needs a torch.nn.Module, got {type(model).__name__}.")
    if not any(weight.requires_grad for weight in nn.Module.parameters(model)):
        raise ValueError(
            "The model has no trainable parameters. Are its layers attributes of the module "
            "(self.layer = ...; in a list they must be in nn.ModuleList), with requires_grad on?"
        )


def probe(model: nn.Module, inputs: Tensor, classes: int) -> None:
    """Run two samples: fills lazy layers before the optimiser is made, and shows shapes early.

    Raises:  TypeError, ValueError: output of the wrong kind, or a lazy layer that is never used.
    """
    sample = inputs[:2]
    with evaluating(model):
        logits = logits_of(model, sample)
    if logits.shape[1] < classes:
        raise ValueError(
            f"The model must return one logit for each of the {classes} classes, expected shape "
            f"({len(sample)}, {classes}), got {tuple(logits.shape)}."
        )
    for name, weight in nn.Module.named_parameters(model):
        if nn.parameter.is_lazy(weight):
            raise ValueError(f"The lazy layer of {name!r} is never used in forward: remove it.")
