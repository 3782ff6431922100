"""Writing a trace: to a file that appears whole or not at all, packed as its name says."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvframe.errors import ConfigError, TraceError
from kvframe.spelling import did_you_mean

FORMS = {
    "mooncake": (".jsonl",),
    "kvframe": (".kvt.gz",),
    "libcachesim-csv": (".csv",),
    "oracle-general": (".oracleGeneral", ".oracleGeneral.bin"),
    "lcsllm": (".lcsllm",),
}
"""Forms that are written, and how the files are called."""

_PACKED = (".gz", ".zst", ".bz2", ".xz")


def form_of(path: Path, form: str | None) -> str:
    """The form to write: the one that is named, or that of the file's name.

    Raises:
        ConfigError: There is no such form, or the name does not say one.
    """
    if form is not None:
        if form not in FORMS:
            hint = did_you_mean(form, list(FORMS)) or f": must be one of {', '.join(FORMS)}"
            raise ConfigError(f"--to {form}{hint}")
        return form
    name = path.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    for known, ends in FORMS.items():
        if path.name.endswith(ends) or name.endswith(ends):
            return known
    if str(path) == "-":
        return "mooncake"
    endings = ", ".join(end for ends in FORMS.values() for end in ends)
    raise ConfigError(f"-o {path}: must end with {endings} (perhaps packed), or name --to FORM")


@contextmanager
def written(path: Path) -> Iterator[Any]:
    """A file to write bytes to; ``-`` is standard output.

    Raises:
        TraceError: It cannot be written.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        return
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}", str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            packed = _packer(path, file)
            yield packed
            if packed is not file:
                packed.close()
        os.chmod(part, 0o666 & ~_umask())
        Path(part).replace(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}", str(path)) from None
    finally:
        Path(part).unlink(missing_ok=True)


def _packer(path: Path, file: Any) -> Any:
    match path.suffix:
        case ".gz" if not path.name.endswith(".kvt.gz"):  # the core packs the compact form
            return gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="")
        case ".bz2":
            return bz2.BZ2File(file, "wb")
        case ".xz":
            return lzma.LZMAFile(file, "wb")
        case ".zst":
            try:
                import zstandard
            except ImportError:
                what = "needs zstandard: pip install 'kvframe[trace]'"
                raise ConfigError(f"-o {path}: {what}") from None
            return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
        case _:
            return file


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
