"""What tells a training step from a validation that is logged under a step's number."""

# verl's `val-core/...` and `val-aux/...`, and what other trainers call the same.
_VALIDATION_PREFIXES = ("val-", "val/", "val_", "eval/", "eval-", "eval_", "validation/")


def is_validation(name: str) -> bool:
    """Tell whether a logged scalar is a score of a validation."""
    return name.startswith(_VALIDATION_PREFIXES)
