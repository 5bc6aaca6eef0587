"""Names of owners, for the browser: whatever object an owner is, it gets a number and a text of its own."""

from collections.abc import Hashable

NO_NAME = "(no name)"  # stands for the owner None
LONGEST_TEXT = 200  # of a name or a message: a learner's allocator may say anything


class Names:
    """texts    the name of every owner, in the order in which they appear; no two alike
    numbers  owner → its place there
    """

    def __init__(self):
        self.texts: list[str] = []
        self.numbers: dict[Hashable, int] = {}
        self._taken: set[str] = set()

    def number(self, owner: Hashable) -> int:
        number = self.numbers.get(owner)
        if number is None:
            number = self.numbers[owner] = len(self.texts)
            self.texts.append(self._unlike_others(owner))
            self._taken.add(self.texts[-1])
        return number

    def _unlike_others(self, owner: Hashable) -> str:
        """7 and "7" are two owners: the later one is shown as its repr."""
        if owner is None:
            return NO_NAME
        name = cut(str(owner))
        if name.strip() and name not in self._taken and name != NO_NAME:
            return name
        full = name = cut(repr(owner))
        number = 2
        while name in self._taken:
            name, number = f"{full} ({number})", number + 1
        return name


def cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
