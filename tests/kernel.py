"""A real Jupyter kernel for tests: run cells one after the other, look at what they show, interrupt one."""

import contextlib
import time
from dataclasses import dataclass

from jupyter_client.manager import start_new_kernel


@dataclass
class CellOutput:
    text: str = ""       # everything printed, and the plain text of results
    error: str = ""      # the name of the exception
    traceback: str = ""  # as the notebook shows it, without colours


class Kernel:
    def __init__(self, manager, client):
        self.manager, self._client = manager, client

    def run(self, code: str, timeout: float = 120, interrupt_after: float | None = None, begun: str = "") -> CellOutput:
        """Run one cell; with `interrupt_after`, press the stop button that many seconds after it began, or after it
        printed `begun`."""
        output = CellOutput()
        started = time.monotonic()
        interrupt_at = started + (interrupt_after or 0)
        request = self._client.execute(code)
        while True:
            if interrupt_after is not None and begun not in output.text:
                interrupt_at = time.monotonic() + interrupt_after
            elif interrupt_after is not None and time.monotonic() > interrupt_at:
                self.manager.interrupt_kernel()
                interrupt_after = None
            if time.monotonic() - started > timeout:
                raise TimeoutError(f"the cell did not end within {timeout} s; so far: {output}")
            try:
                message = self._client.get_iopub_msg(timeout=0.1)
            except Exception:  # queue.Empty
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                output.text += content["text"]
            elif kind == "execute_result":
                output.text += content["data"]["text/plain"] + "\n"
            elif kind == "error":
                output.error = content["ename"]
                output.traceback = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return output

    def restart(self) -> None:
        self.manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=60)
        self._client.execute("%colors nocolor")


@contextlib.contextmanager
def kernel(cwd=None, env=None):
    manager, client = start_new_kernel(kernel_name="python3", cwd=cwd, **({"env": env} if env else {}))
    try:
        client.execute("%colors nocolor")
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
