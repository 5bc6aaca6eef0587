"""What a notebook loads: `%load_ext pagedkv.lab` gives the cell magic `%%java`, the commands check, hint, solution and
progress, and short error messages."""


def load_ipython_extension(shell) -> None:
    from pagedkv.lab import commands, java_cell, short_errors
    from pagedkv.lab.predict import predict
    shell.register_magic_function(java_cell.java, "cell", "java")
    short_errors.install(shell)
    commands.install(shell)
    shell.push({"predict": predict})
