"""Safe reading of files: a file that is endless, too large or blocks its reader is refused."""

from __future__ import annotations

import os
import shlex
import stat
from typing import BinaryIO

CONFIG_BYTES = 1 << 20
"""The largest configuration."""

RESULT_BYTES = 1 << 28
"""The largest file of results."""

TRACE_BYTES = 1 << 32
"""The largest trace, as it lies in its file."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""What a mode gives to others than the owner."""
ROOT = 0

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class FileError(OSError):
    """A file is of another kind than is read, or too large; ``strerror`` says so."""

    def __init__(self, name: object, reason: str) -> None:
        super().__init__(0, reason, str(name))


def why_unread(error: OSError | ValueError, path: str | os.PathLike[str]) -> str:
    """Why ``path`` could not be read; of one that is not there, where it was looked for."""
    if isinstance(error, FileNotFoundError):
        return f"{error.strerror}: looked for {os.path.abspath(path)}"
    if isinstance(error, FileError):
        return str(error.strerror)
    return f"cannot be read: {error}"


def read_regular(path: str | os.PathLike[str], limit: int, *, secret: bool = False) -> bytes:
    """All of a regular file, or nothing of the null device.

    Args:
        path: The file.
        limit: Its most bytes.
        secret: Refuse one that its mode opens to others, as `read_secret` does.

    Raises:
        FileError: It is another kind of file, which could be endless or block its reader, or it is
            larger, or open to others.
        OSError: It cannot be opened or read.
        ValueError: No file can have such a name.
    """
    check_regular(path)
    # Without O_NONBLOCK, a pipe that has taken its place meanwhile would wait for a writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        told = os.fstat(file.fileno())
        _check(told, path)
        # A secret that root mounts is for the group of the process, as in a container.
        closed = OTHERS & ~stat.S_IRGRP if told.st_uid == ROOT else OTHERS
        if secret and told.st_mode & closed:
            mode, mend = stat.S_IMODE(told.st_mode), f"chmod 600 {shlex.quote(os.fspath(path))}"
            raise FileError(path, f"mode {mode:04o}: is open to others than its owner: {mend}")
        if told.st_size > limit:
            raise FileError(path, f"{told.st_size} bytes: must be at most {limit}")
        return _read(file, path, limit)


def read_secret(path: str | os.PathLike[str], limit: int) -> bytes:
    """What `read_regular` reads, of a file that others than its owner can do nothing with; one of
    root's may be read by its group.

    Raises:
        FileError: As there, or its mode lets others read, write or run it.
        OSError, ValueError: As there.
    """
    return read_regular(path, limit, secret=True)


def read_stream(path: str | os.PathLike[str], limit: int) -> bytes:
    """All of a regular file, a pipe or a terminal.

    A pipe lets its reader wait until its writers have ended, as is meant by one that is named.

    Raises:
        FileError: It is something else, or larger than ``limit`` bytes.
        OSError: It cannot be opened or read.
        ValueError: No file can have such a name.
    """
    with open(path, "rb") as file:
        return read_open(file, path, limit)


def read_open(file: BinaryIO, name: object, limit: int) -> bytes:
    """The rest of an open file, of the kinds that `read_stream` reads."""
    check_stream(file, name)
    return _read(file, name, limit)


def check_stream(file: BinaryIO, name: object) -> None:
    """Refuse an open file that is none of the kinds that `read_stream` reads.

    Raises:
        FileError: It is a directory, or a device that has no end.
    """
    try:
        told = os.fstat(file.fileno())
    except (OSError, ValueError):  # no file is below it, as in a test
        return
    kind = stat.S_IFMT(told.st_mode)
    ends = file.isatty() or _is_null(told)
    if kind in (stat.S_IFBLK, stat.S_IFDIR) or (kind == stat.S_IFCHR and not ends):
        raise FileError(name, f"is {_KINDS[kind]}: must be a file or a pipe")


def _is_null(told: os.stat_result) -> bool:
    null = os.stat(os.devnull)
    return (told.st_dev, told.st_ino) == (null.st_dev, null.st_ino)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what is no regular file, without opening it.

    Raises:
        FileError: It is something else.
        OSError: There is nothing of that name.
    """
    _check(os.stat(path), path)


def _check(told: os.stat_result, name: object) -> None:
    kind = stat.S_IFMT(told.st_mode)
    if kind != stat.S_IFREG and not _is_null(told):
        raise FileError(name, f"is {_KINDS.get(kind, 'no file')}: must be a regular file")


def _read(file: BinaryIO, name: object, limit: int) -> bytes:
    parts, left = [], limit + 1
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise FileError(name, f"more than {limit} bytes: must be at most {limit}")
    return b"".join(parts)
