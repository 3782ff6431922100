"""A folder as a tier: a file a page, with a name that appears only once the file is whole."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from kvframe.errors import TierError
from kvframe.tiers.space import parse
from kvframe.tiers.store import PageStore

_SUFFIX = ".kv"
_PART = ".part"
_ALIGNED = 4096


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
    pages and nothing else. Files that are not of kvframe, or of another space, stay untouched.

    Raises:
        TierError: The folder cannot be had, or another process has it.
    """

    def __init__(self, options: DiskOptions) -> None:
        # The process may change its folder later on.
        self.root = Path(options.path).absolute()
        self._fsync, self._direct = options.fsync, os.O_DIRECT if options.direct else 0
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
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
        for left in self.root.glob(f"??/*{_PART}"):
            if parse(left.stem):
                _unlink(left)  # what a kill left behind
        if options.direct:
            self._try_direct()

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
        return [self._path(name).exists() for name in names]

    def recover(self, head: int) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self.root.glob(f"??/*{_SUFFIX}")):
            if parse(path.stem) is None:
                continue
            try:
                with path.open("rb") as file:
                    yield path.stem, file.read(head)
            except OSError:
                continue  # unreadable: as good as gone

    def close(self) -> None:
        # A child of a fork holds the file too: it must neither keep the lock nor give it back.
        if os.getpid() == self._owner:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        # The last two digits of the key spread pages over 256 folders.
        named = parse(name)
        shard = f"{named.key[0] & 0xFF:02x}" if named else "00"
        return self.root / shard / f"{name}{_SUFFIX}"

    def _write(self, path: Path, data: bytes) -> bool:
        part = path.with_suffix(_PART)
        try:
            path.parent.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | self._direct
            file = os.open(part, flags, 0o644)
            try:
                self._fill(file, data)
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
            file = os.open(path, os.O_RDONLY | self._direct)
        except OSError:
            return None
        try:
            size = os.fstat(file).st_size
            if not self._direct:
                return os.read(file, size)
            with mmap.mmap(-1, max(-(-size // _ALIGNED), 1) * _ALIGNED) as aligned:
                count = os.readv(file, [aligned])
                return aligned[:count]
        except OSError:
            return None
        finally:
            os.close(file)

    def _try_direct(self) -> None:
        trial = self.root / f".direct{_PART}"
        try:
            file = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o644)
            os.close(file)
        except OSError as error:
            self.close()
            raise TierError(f"{self.root}: direct = true, and {error.strerror}") from error
        finally:
            trial.unlink(missing_ok=True)


def _unlink(path: Path) -> None:
    with suppress(OSError):  # what cannot be removed is not asked for again
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> bool:
    """Have a folder's new names on the medium."""
    try:
        file = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.fsync(file)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
