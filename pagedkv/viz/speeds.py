"""How fast a recording plays at first."""

_FITTING_SECONDS = 15  # it takes about that long, unless that would be a crawl or a blur
_OFFERED = (1, 2, 5, 10, 30, 60)  # events per second; the browser offers these, and faster ones


def fitting_speed(num_events: int) -> int:
    """Events per second."""
    wanted = min(60, max(2, num_events / _FITTING_SECONDS))
    return min(_OFFERED, key=lambda each: abs(each - wanted))
