"""What a notebook loads: `%load_ext pagedkv.lab` gives the cell magic `%%java`, and short error messages."""


def load_ipython_extension(shell) -> None:
    from pagedkv.lab import java_cell, short_errors
    shell.register_magic_function(java_cell.java, "cell", "java")
    short_errors.install(shell)
