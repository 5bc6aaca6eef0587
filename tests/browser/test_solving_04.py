"""Notebook 04 done in the browser as a learner does it: a guess in the address view, then each exercise, untouched,
with a wrong answer, with a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, solve
from tests.browser.test_block_grid import kernels

SOURCE = checkout() / "notebooks" / "source" / "04_block_tables.md"
APPEND = """\
        needed = -(-(self.num_tokens + n) // self.block_size)   # rounded up
        self.block_table += self.pool.allocate(needed - len(self.block_table))
        self.num_tokens += n"""
TOKEN_BY_TOKEN = """\
        for _ in range(n):
            if self.num_tokens == len(self.block_table) * self.block_size:
                self.block_table += self.pool.allocate(1)
            self.num_tokens += 1"""
SLIPS = {
    "04.1": Slip("position < 0", "false", "slot 143, which is in block 8", "What was asked for"),
    "04.2": Slip(APPEND, TOKEN_BY_TOKEN, "OutOfBlocks, and nothing has changed: 3 blocks needed, 2 free",
                 "The pool at call 2, B.append(12)"),
    "04.3": Slip("new ArrayList<>()", "new LinkedList<>()", "A list of nodes is walked"),
    "04.4": Slip("[48]", "[96]", "Where does a block of 48 end and one of 32 not?"),
    "04.5": Slip("// 100 * 32 * 512", "// 100 * 512", "18.40 GiB, which comes out with"),
}


def test_solving_notebook_04(lab_page, tmp_path):
    open_and_run(lab_page, "04_block_tables.ipynb", tmp_path / "p.json")
    guess_the_logical_block(lab_page)
    solve(lab_page, SOURCE, SLIPS)


def guess_the_logical_block(lab_page):
    lab_page.show_cell(cell_number(lab_page, starts="address = AddressView"))
    guess = lab_page.page.get_by_test_id("guess-1").locator("visible=true").first
    guess.scroll_into_view_if_needed()
    guess.fill("2")
    guess.press("Enter")
    assert kernels(lab_page, "address.step", "1") == "1"
