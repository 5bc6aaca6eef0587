"""What a grader says where an answer is wrong: the situation, what the answer did, and what was expected."""

from pagedkv.lab.grading import Wrong


def counter_example(situation: str, yours: str, expected: str, picture: tuple[bytes, str] | None = None) -> Wrong:
    """To be raised. picture: as in `Wrong`."""
    return Wrong(f"{situation}\n   yours:     {yours}\n   expected:  {expected}", picture)
