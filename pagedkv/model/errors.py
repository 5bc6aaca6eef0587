"""What can go wrong on the way to a model, as one type."""


class ModelNotAvailable(RuntimeError):
    """There is no model to load. The message says what was tried, why it failed, and what to type or set."""
