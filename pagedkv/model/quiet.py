"""transformers without its remarks, and with its progress bars only where somebody waits."""

import contextlib


@contextlib.contextmanager
def quiet(progress: bool):
    """Inside, transformers says nothing below an error, and shows its bars only with `progress`. Afterwards it is as it
    was."""
    from transformers.utils import logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
