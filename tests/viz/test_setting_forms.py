"""Settings of an allocator as a form, and back."""

import json

import pytest

from pagedkv.rivals.base import Rival, Setting
from pagedkv.rivals.setup import Setup
from pagedkv.viz.setting_forms import form_of, settings_from


class ManySettings(Rival):
    SETTINGS = (Setting("order", "order", "address", choices=("address", "size")),
                Setting("page_bytes", "page", 4096, choices=(4096, 8192, 1 << 20), unit="B"),
                Setting("limit_bytes", "limit", None, span=(1 << 20, 1 << 24, 1 << 20), unit="B"),
                Setting("exponent", "exponent", 11, span=(0, 14, 1)),
                Setting("merge", "merge", True),
                Setting("retries", "retries", None, choices=(None, 1, True)),
                Setting("seed", "seed", 7))


SETUP = Setup(ManySettings)


def test_the_form():
    form = form_of(SETUP, "many")
    assert form["title"] == "many"
    order, page, limit, exponent, merge, retries, seed = form["fields"]
    assert order == {"keyword": "order", "label": "order", "unit": "", "kind": "choice",
                     "labels": ["address", "size"], "value": 0}
    assert page["labels"] == ["4 KiB", "8 KiB", "1 MiB"]
    assert (limit["kind"], limit["first"], limit["last"], limit["step"]) == ("span", 1 << 20, 1 << 24, 1 << 20)
    assert (limit["value"], limit["optional"]) == (None, True)
    assert (exponent["value"], exponent["optional"]) == (11, False)
    assert (merge["labels"], merge["value"]) == (["off", "on"], 1)
    assert retries["labels"] == ["none", "1", "on"]
    assert (seed["kind"], seed["value"]) == ("number", 7)
    assert json.loads(json.dumps(form)) == form, "it goes to a browser"
    assert form_of(Setup(dict), "other")["fields"] == [], "a function without settings has an empty form"


def test_a_value_from_outside_is_one_more_choice():
    setup = Setup(ManySettings, {"page_bytes": 512, "merge": False})
    page = form_of(setup, "")["fields"][1]
    assert page["labels"] == ["4 KiB", "8 KiB", "1 MiB", "512 B"] and page["value"] == 3
    assert settings_from(setup, {"page_bytes": 3, "merge": 1}) == {"merge": True}


def test_back_from_the_form_come_the_changes_only():
    values = {field["keyword"]: field["value"] for field in form_of(SETUP, "")["fields"]}
    assert settings_from(SETUP, values) == {}
    assert settings_from(SETUP, values | {"order": 1, "limit_bytes": 2 << 20, "retries": 2}) == \
        {"order": "size", "limit_bytes": 2 << 20, "retries": True}
    assert settings_from(SETUP, {"retries": 1}) == {"retries": 1}
    assert settings_from(Setup(ManySettings, {"limit_bytes": 5}), {"limit_bytes": None}) == {"limit_bytes": None}


@pytest.mark.parametrize("values, reason", [
    ({"order": 2}, "order: there is no choice 2"), ({"order": -1}, "no choice -1"), ({"order": True}, "no choice True"),
    ({"order": "size"}, "no choice 'size'"), ({"colour": 0}, "there is no setting 'colour'")])
def test_what_a_form_cannot_send(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings_from(SETUP, values)
