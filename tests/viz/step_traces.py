"""Small traces for the steps view."""


def race() -> dict:
    """Two threads pop one block off a stack that nobody locks."""
    def step(actor, call, text, blocks, notes=("", ""), head=2, mark=None):
        names = ("stack", "A holds", "B holds", "lost")
        return {"actor": actor, "call": call, "text": text, "blocks": dict(zip(names, blocks)),
                "notes": dict(zip("AB", notes)), "head": head, "mark": mark}

    whole = ([2, 1, 0], [], [], [])
    return {
        "version": 1, "title": "pop without a lock", "actors": ["A", "B"],
        "places": [{"name": "stack", "kind": "stack"}, {"name": "A holds", "kind": "set", "actor": "A"},
                   {"name": "B holds", "kind": "set", "actor": "B"}, {"name": "lost", "kind": "lost"}],
        "steps": [
            step(None, None, "start: 3 blocks on the stack", whole),
            step("A", "pop()", "reads head: 2", whole, ("pop(): read head 2", "")),
            step("B", "pop()", "reads head: 2", whole, ("pop(): read head 2", "pop(): read head 2")),
            step("B", "pop()", "writes head: 1", ([1, 0], [], [2], []), ("pop(): read head 2",) * 2, 1),
            step("B", None, "pop() returns 2", ([1, 0], [], [2], []), ("pop(): read head 2", ""), 1),
            step("A", "pop()", "writes head: 1", ([1, 0], [], [2], []), ("pop(): read head 2", ""), 1),
            step("A", None, "pop() returns 2", ([1, 0], [2], [2], []), head=1, mark="broken here"),
        ],
        "result": "block 2 was handed out twice: to A and to B",
    }


def losing() -> dict:
    """Block 1 is lost, in one step; no head, no mark before the end."""
    names = ("stack", "lost")
    steps = [("start", [0, 1], []), ("pushes 0 over 1", [0], [1])]
    return {"version": 1, "title": "", "actors": ["A"], "result": "",
            "places": [{"name": "stack", "kind": "stack"}, {"name": "lost", "kind": "lost"}],
            "steps": [{"actor": "A" if number else None, "call": None, "text": text, "notes": {"A": ""}, "mark": None,
                       "blocks": dict(zip(names, blocks))} for number, (text, *blocks) in enumerate(steps)]}
