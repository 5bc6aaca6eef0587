"""Pictures of a notebook that is longer than a screen: all of it is on them."""

import io

from PIL import Image

# a colour of its own for each cell, so that a picture tells which cells are on it
CELL = "from IPython.display import HTML\nHTML('<div style=\"height: 900px; background: rgb(10, {}, 200)\"></div>')"
COLOURS = [20 * number for number in range(12)]


def colours_in(folder):
    """Of each picture in the folder, in order: the cells that can be seen on it."""
    found = []
    for path in sorted(folder.iterdir()):
        picture = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        colours = {colour for _, colour in picture.getcolors(picture.width * picture.height)}
        found.append([green for green in COLOURS if (10, green, 200) in colours])
    return found


def test_the_whole_notebook_is_on_the_pictures(lab_page, tmp_path, monkeypatch):
    lab_page.write("long.ipynb", *[CELL.format(green) for green in COLOURS])
    lab_page.open("long.ipynb")
    lab_page.run_all()
    lab_page.show_cell(6)
    lab_page.page.wait_for_timeout(500)
    size, top = lab_page.page.viewport_size, lab_page._scroll_to(None)["top"]

    monkeypatch.delenv("PAGEDKV_SCREENSHOTS", raising=False)
    lab_page.screenshot("long")
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setenv("PAGEDKV_SCREENSHOTS", str(tmp_path))
    lab_page.screenshot("long")
    found = colours_in(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"long-{number}.png" for number in range(1, len(found) + 1)}
    assert 3 <= len(found) <= 4, found
    assert found[0][0] == COLOURS[0] and found[-1][-1] == COLOURS[-1]
    assert sorted(set(sum(found, []))) == COLOURS
    assert lab_page.page.viewport_size == size
    assert abs(lab_page._scroll_to(None)["top"] - top) < 1000, "it is where it was"

    lab_page.write("short.ipynb", CELL.format(0))
    lab_page.open("short.ipynb")
    lab_page.run_all()
    lab_page.screenshot("short")
    assert (tmp_path / "short.png").exists()
