"""environment.yml and pyproject.toml name the same packages with the same bounds."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base", "playwright": "playwright-python"}
# what conda brings and pip does not need to: the language, the tools, pip itself
NOT_PYTHON_PACKAGES = {"python", "pip", "openjdk", "maven"}


def split(requirement):
    """("torch", {">=2.5"}): the name, and the bounds with conda's single = and pip's == read alike."""
    name, bounds = re.fullmatch(r"([A-Za-z0-9_.-]+?)\s*([<>=!~].*)?", requirement).groups()
    return name, {re.sub(r"^=(?==?\d)=?", "==", bound.strip()) for bound in (bounds or "").split(",") if bound}


def pip_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [text for text in extras["lab"] + extras["test"] if not text.startswith("pagedkv")]
    return {CONDA_NAMES.get(name, name): bounds for name, bounds in map(split, wanted)}


def conda_dependencies():
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


def conda_packages():
    return dict(split(text) for text in conda_dependencies() if isinstance(text, str))


def test_bounds_are_read_alike():
    assert split("nbval=0.11.0") == split("nbval==0.11.0") == ("nbval", {"==0.11.0"})
    assert split("a>=1,<2") == ("a", {">=1", "<2"})


def test_the_same_packages_with_the_same_bounds():
    conda = {name: bounds for name, bounds in conda_packages().items() if name not in NOT_PYTHON_PACKAGES}
    assert conda == pip_packages()


def test_the_teaching_baseline():
    conda = conda_packages()
    assert conda["openjdk"] == {"==17"} and conda["python"] == {"==3.11"}
    assert NOT_PYTHON_PACKAGES <= conda.keys()


def test_the_checkout_itself_is_installed_from_where_it_is():
    [pip] = [entry["pip"] for entry in conda_dependencies() if isinstance(entry, dict)]
    assert pip == ["-e ."]
