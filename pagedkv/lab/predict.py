"""`predict`: decide before you see. A question with a few answers to choose from; the next cell shows what happens."""

from html import escape

import ipywidgets


class Prediction(ipywidgets.VBox):
    """The question, one button per answer, and a line that says what was chosen. It never says what is right: the
    notebook's next cell does.

    choice  the answer chosen, or None
    """

    def __init__(self, question: str, *options: object):
        self._question, self._options = question, [str(option) for option in options]
        self.choice: str | None = None
        buttons = [self._button(option) for option in self._options]
        self._said = ipywidgets.HTML("Choose one, then run the next cell.")
        super().__init__([ipywidgets.HTML(f"<b>{escape(question)}</b>"), ipywidgets.HBox(buttons), self._said])

    def _button(self, option: str) -> ipywidgets.Button:
        button = ipywidgets.Button(description=option, layout=ipywidgets.Layout(width="auto"))
        button.on_click(lambda _: self._choose(option))
        return button

    def _choose(self, option: str) -> None:
        self.choice = option
        self._said.value = f"You say <b>{escape(option)}</b>. Run the next cell to see."

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        # Where widgets cannot run, the question is still there to be read.
        bundle["text/plain"] = f"{self._question}  {' / '.join(self._options)}"
        return bundle


def predict(question: str, *options: object) -> Prediction:
    """Ask before showing: `predict("How many blocks are free now?", 8, 9)` as a cell's last line."""
    return Prediction(question, *options)
