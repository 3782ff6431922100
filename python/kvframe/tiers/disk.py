"""A folder as a tier: a file a page, with a name that appears only once the file is whole."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from kvframe.errors import TierError
from kvframe.tiers.object_keys import parse
from kvframe.tiers.store import PageStore

_SUFFIX = ".kv"
_PART = ".part"
_ALIGNED = 4096
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700  # pages hold what users wrote
_SAFE = os.O_NONBLOCK | os.O_NOFOLLOW  # a FIFO would block, and a link lead elsewhere


class DiskOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[tiers.options]`` of ``store = "disk"``."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="A folder; made if need be.")]
    direct: Annotated[
        bool, msgspec.Meta(description="Go past the page cache (O_DIRECT), where it can be had.")
    ] = False
    fsync: Annotated[
        bool,
        msgspec.Meta(description="Have a page on the medium before it is named: power may fail."),
    ] = True


class Disk(PageStore):
    """A folder that one process uses at a time.

    A page is written to a file of another name, synced, and renamed: after a kill there are whole
    pages and nothing else. Files that are not of kvframe, or of another space, stay untouched. What
    stands at a page's path and is no regular file is no page. Files have mode 0600 and folders
    0700; a folder that was there before keeps its own, except those of pages in it.

    A file's time of modification is that of its last use: by it `recover` orders what it lists.

    Raises:
        TierError: The folder cannot be had, or another process has it.
    """

    def __init__(self, options: DiskOptions) -> None:
        # The process may change its folder later on.
        self.root = Path(options.path).absolute()
        self._fsync, self._direct = options.fsync, os.O_DIRECT if options.direct else 0
        self._used_ns = 0
        try:
            _make_folders(self.root)
            self._lock = _open_regular(self.root / ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise TierError(f"{self.root}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            taken = isinstance(error, BlockingIOError)
            held = "another process has this folder, or tiers of this one that were not closed"
            reason = held if taken else f"no lock: {error.strerror}"
            raise TierError(f"{self.root}: {reason}") from error
        self._owner = os.getpid()
        try:
            self._tidy()
            if options.direct:
                self._try_direct()
        except BaseException:
            self.close()
            raise

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        paths = [self._path(name) for name, _ in objects]
        kept = [self._write(path, data) for path, (_, data) in zip(paths, objects, strict=True)]
        if self._fsync:
            synced = {folder: _sync_folder(folder) for folder in {path.parent for path in paths}}
            kept = [one and synced[path.parent] for one, path in zip(kept, paths, strict=True)]
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        return [self._read(self._path(name)) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            _unlink(self._path(name))

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        return [_is_regular(self._path(name)) for name in names]

    def keep(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(OSError):
                os.utime(self._path(name), ns=self._next(), follow_symlinks=False)

    def recover(self, head: int) -> Iterator[tuple[str, bytes]]:
        found = []
        for path in self._files(_SUFFIX):
            with suppress(OSError):
                found.append((path.lstat().st_mtime_ns, str(path)))
        for _, where in sorted(found):
            path = Path(where)
            data = self._first(path, head)
            if data is not None:
                yield path.stem, data

    def close(self) -> None:
        # A child of a fork has inherited the file: it must neither hold the lock nor release it.
        if os.getpid() == self._owner:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def _next(self) -> tuple[int, int]:
        """A time of use, later than any before: a file system's own clock may be coarse."""
        self._used_ns = max(time.time_ns(), self._used_ns + 1)
        return self._used_ns, self._used_ns

    def _tidy(self) -> None:
        """Remove what a killed process left, and the access of other users."""
        for folder in self._folders():
            with suppress(OSError):
                if folder.stat().st_mode & 0o077:
                    folder.chmod(_FOLDER_MODE)
        for left in self._files(_PART):
            _unlink(left)

    def _folders(self) -> list[Path]:
        """Folders of pages: two digits each, and no links."""
        with suppress(OSError), os.scandir(self.root) as found:
            folders = [Path(one.path) for one in found if one.is_dir(follow_symlinks=False)]
            return sorted(one for one in folders if _is_shard(one.name))
        return []

    def _files(self, suffix: str) -> Iterator[Path]:
        """Paths in them whose names are of kvframe, whatever they are."""
        for folder in self._folders():
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            for name in names:
                if name.endswith(suffix) and parse(name.removesuffix(suffix)):
                    yield folder / name

    def _path(self, name: str) -> Path:
        # The last two digits of the key spread pages over 256 folders.
        named = parse(name)
        shard = f"{named.key[0] & 0xFF:02x}" if named else "00"
        return self.root / shard / f"{name}{_SUFFIX}"

    def _write(self, path: Path, data: bytes) -> bool:
        part = path.with_suffix(_PART)
        try:
            path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            part.unlink(missing_ok=True)
            file = os.open(part, _SAFE | _NEW | self._direct, _FILE_MODE)
            try:
                self._fill(file, data)
                os.utime(file, ns=self._next())
                if self._fsync:
                    os.fsync(file)
            finally:
                os.close(file)
            part.rename(path)
        except OSError:  # full, or broken: there is no page of that name
            _unlink(part)
            return False
        return True

    def _fill(self, file: int, data: bytes) -> None:
        if not self._direct:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            return
        size = -(-len(data) // _ALIGNED) * _ALIGNED
        with mmap.mmap(-1, size) as aligned:
            aligned[: len(data)] = data
            if os.write(file, aligned) != size:
                raise OSError("short write")
        os.ftruncate(file, len(data))

    def _read(self, path: Path) -> bytes | None:
        try:
            file = _open_regular(path, os.O_RDONLY | self._direct)
        except OSError:
            return None
        try:
            # A file that is larger than a page is read as far as is needed to see that.
            size = min(os.fstat(file).st_size, self.largest + 1)
            if not self._direct:
                return _read_all(file, size)
            with mmap.mmap(-1, max(-(-size // _ALIGNED), 1) * _ALIGNED) as aligned:
                count = os.readv(file, [aligned])
                return aligned[: min(count, size)]
        except OSError:
            return None
        finally:
            os.close(file)

    def _first(self, path: Path, head: int) -> bytes | None:
        """The first bytes of a file; None if it is none, or cannot be read: as good as gone."""
        try:
            file = _open_regular(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return _read_all(file, head)
        except OSError:
            return None
        finally:
            os.close(file)

    def _try_direct(self) -> None:
        trial = self.root / f".direct{_PART}"
        try:
            trial.unlink(missing_ok=True)
            os.close(os.open(trial, _SAFE | _NEW | os.O_DIRECT, _FILE_MODE))
        except OSError as error:
            raise TierError(f"{self.root}: direct = true, and {error.strerror}") from error
        finally:
            _unlink(trial)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def _is_shard(name: str) -> bool:
    return len(name) == 2 and all(digit in "0123456789abcdef" for digit in name)


def _make_folders(folder: Path) -> None:
    """A folder and those above it, for their owner alone where they are not there yet."""
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            one.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def _open_regular(path: Path, flags: int) -> int:
    """Open a file and nothing else: no link, no FIFO, no device.

    Raises:
        OSError: It cannot be opened, or is something else.
    """
    file = os.open(path, flags | _SAFE, _FILE_MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(0, f"{path.name} is no regular file")
    return file


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read_all(file: int, size: int) -> bytes:
    """So many bytes from where the file is, or as many as there are."""
    found = os.read(file, size)
    if len(found) == size:
        return found
    parts = [found]
    while parts[-1] and size > (done := sum(map(len, parts))):
        parts.append(os.read(file, size - done))
    return b"".join(parts)


def _unlink(path: Path) -> None:
    with suppress(OSError):  # what cannot be removed is not asked for again
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> bool:
    """Have a folder's new names on the medium."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        os.fsync(file)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
