"""Has the learner begun? What still is a placeholder.

The placeholder is `...`: as a value, or as the whole body of a function or method. In Java it is a `NotYet` that is
thrown when the code runs, which only running it can tell.
"""

import dis
import types

_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "COPY_FREE_VARS", "MAKE_CELL"}


def placeholders_in(answer: object) -> list[str]:
    """What of `answer` is still a placeholder, for people to read."""
    if answer is Ellipsis:
        return ["the answer"]
    if isinstance(answer, types.FunctionType):
        return [f"{answer.__name__}()"] if _is_empty(answer) else []
    # type() and not isinstance(): the proxies of Java classes are types too, but of their own kind.
    if type(answer) is type:
        return [f"{name}()" for name, member in vars(answer).items()
                if isinstance(member, types.FunctionType) and _is_empty(member)]
    return []


def _is_empty(function: types.FunctionType) -> bool:
    """Whether the body does nothing: `...`, `pass`, a docstring, or a bare return."""
    instructions = list(dis.get_instructions(function))
    if any(instruction.opname not in _NOTHING for instruction in instructions):
        return False
    returned = [instruction.argval for instruction in instructions if instruction.opname in ("LOAD_CONST", "RETURN_CONST")]
    return returned in ([None], [])
