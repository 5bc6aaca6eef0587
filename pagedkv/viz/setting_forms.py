"""Settings of an allocator as fields of a form, and back.

A form sends numbers only: what a person chose of a list goes by its place in the list. So a setting's values may be
anything, such as a bool, None or a name.
"""

from typing import Any

from pagedkv.core.memory import as_text
from pagedkv.rivals.base import Setting
from pagedkv.rivals.setup import Setup


def form_of(setup: Setup, title: str) -> dict:
    """The form: {"title", "fields"}, a field for each setting:

        keyword, label, unit   "B" stands for a size in bytes
        kind     "choice": `labels`, and `value` is a place in it
                 "span": `first`, `last`, `step`
                 "number": any
        optional whether `value` may be None (of "span" and "number"): the setting is off
    """
    return {"title": title, "fields": [_field(setting, value_of(setup, setting)) for setting in setup.known_settings]}


def value_of(setup: Setup, setting: Setting) -> Any:
    return setup.settings.get(setting.keyword, setting.default)


def settings_from(setup: Setup, values: dict[str, Any]) -> dict[str, Any]:
    """What a form sent, as keywords of the allocator's constructor. Fields that say what holds anyway are left out.
    Raises ValueError for a field that the form does not have, or a place that its list does not have."""
    by_keyword = {setting.keyword: setting for setting in setup.known_settings}
    settings = {}
    for keyword, sent in values.items():
        if keyword not in by_keyword:
            raise ValueError(f"there is no setting {keyword!r}")
        old = value_of(setup, by_keyword[keyword])
        choices = _choices(by_keyword[keyword], old)
        if choices:
            if type(sent) is not int or not 0 <= sent < len(choices):
                raise ValueError(f"{by_keyword[keyword].label}: there is no choice {sent!r}")
            sent = choices[sent]
        if type(sent) is not type(old) or sent != old:
            settings[keyword] = sent
    return settings


def _field(setting: Setting, value: Any) -> dict:
    common = {"keyword": setting.keyword, "label": setting.label, "unit": setting.unit}
    choices = _choices(setting, value)
    if choices:
        place = next(place for place, each in enumerate(choices) if each == value and type(each) is type(value))
        return {**common, "kind": "choice", "labels": [_label(each, setting.unit) for each in choices], "value": place}
    common |= {"value": value, "optional": setting.default is None or value is None}
    if setting.span:
        first, last, step = setting.span
        return {**common, "kind": "span", "first": first, "last": last, "step": step}
    return {**common, "kind": "number"}


def _choices(setting: Setting, value: Any) -> tuple:
    """Those of the setting; a value from outside, which Python may have set, is one more."""
    choices = tuple(setting.choices)
    if not choices and isinstance(setting.default, bool):
        choices = (False, True)
    if choices and not any(each == value and type(each) is type(value) for each in choices):
        choices += (value,)
    return choices


def _label(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    if isinstance(value, int):
        return as_text(value) if unit == "B" else f"{value:,} {unit}".strip()
    return f"{value} {unit}".strip()
