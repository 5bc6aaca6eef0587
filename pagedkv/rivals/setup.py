"""A setup: which allocator, with which settings. What a comparison is made of."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pagedkv.rivals.base import Rival, Setting


@dataclass(frozen=True)
class Setup:
    """kind: the allocator's class (or any function of a capacity and settings); settings: keywords of its constructor that
    differ from their defaults; title: what people call it."""

    kind: Callable[..., Rival]
    settings: dict[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def known_settings(self) -> tuple[Setting, ...]:
        return getattr(self.kind, "SETTINGS", ())

    def make(self, capacity_bytes: int) -> Rival:
        """A new allocator. Raises what its constructor raises for settings that cannot be."""
        return self.kind(capacity_bytes, **self.settings)

    def with_settings(self, **settings: Any) -> "Setup":
        """Raises ValueError for a setting this allocator does not have."""
        known = {setting.keyword for setting in self.known_settings}
        for keyword in settings:
            if keyword not in known:
                raise ValueError(f"{self.title or self.kind.__name__} has no setting {keyword!r}; it has "
                                 f"{', '.join(sorted(known)) or 'none'}")
        return replace(self, settings={**self.settings, **settings})
