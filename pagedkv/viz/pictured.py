"""What every widget does where none can run, on GitHub or in an exported page: it leaves a picture and a line of text."""

import anywidget


class Pictured(anywidget.AnyWidget):
    """A subclass has `still()`, its state now as a `Picture`, and a `__repr__` of one line, the same on every run."""

    def still(self):
        """The state now as a matplotlib picture, with its description in words."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is drawn")

    def close(self) -> None:
        """Take it off every page and let the browser forget it. Shown again, it comes back."""
        super().close()
        self.__dict__.pop("_repr_mimebundle_", None)  # ipywidgets puts None there, for good

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        self.open()  # does something only after close()
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        stored, described = self.still()._repr_mimebundle_()
        return {**data, "text/plain": repr(self), "image/png": stored["image/png"]}, {**metadata, **described}
