"""Where a log comes from: a file, a folder, a pipe, an archive, or bytes that were sent."""

import gzip
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from longpole_server.errors import UnreadableLogError
from longpole_server.importers.mlflow_run import (
    is_mlflow_folder,
    list_metric_files,
    open_mlflow_folder,
)
from longpole_server.importers.streams import Concatenation, Section

_STANDARD_INPUT = 0
_EVENT_FILES = "*.tfevents.*"
_RUN_FILES = ("*.wandb", "*.swanlab")
_TAR_HEAD_BYTES, _TAR_MAGIC_AT, _TAR_MAGIC = 512, 257, b"ustar"
_MAX_MEMBERS = 256
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log to read.

    Attributes:
        name: For messages and default names; a file's name.
        open: Returns a new binary stream at the start; for a pipe, only once.
        modified_ns: When it was last written, UTC nanoseconds.
    """

    name: str
    open: Callable[[], BinaryIO]
    modified_ns: int

    @classmethod
    def of_file(cls, path: Path) -> "LogSource":
        """Return the source of a file or of a tracker's folder. A named pipe can be read once.

        Raises:
            UnreadableLogError: It is missing, a folder without a log, or may not be read.
        """
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                return _of_folder(path)
            if stat.S_ISREG(status.st_mode):
                # A pipe is not tried: its writer would see the trial as its reader going away.
                with path.open("rb") as stream:
                    is_gzip = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
                if is_gzip:
                    name = printable_name(path.with_suffix("") if path.suffix == ".gz" else path)
                    return cls(name, lambda: _open_gzip(path), status.st_mtime_ns)
        except FileNotFoundError as error:
            raise UnreadableLogError(f"{path}: no such file.") from error
        except OSError as error:
            raise UnreadableLogError(f"{path}: {error.strerror or error}.") from error
        return cls(printable_name(path), lambda: path.open("rb"), status.st_mtime_ns)

    @classmethod
    def of_standard_input(cls) -> "LogSource":
        """Return the source of what is piped in; it can be read once.

        Raises:
            UnreadableLogError: There is no standard input.
        """
        try:
            modified_ns = os.fstat(_STANDARD_INPUT).st_mtime_ns
        except OSError as error:
            raise UnreadableLogError("nothing is piped in.") from error
        # Opened by its number, so that closing the stream leaves the process's own input alone.
        return cls("stdin", lambda: open(_STANDARD_INPUT, "rb", closefd=False), modified_ns)

    @classmethod
    def of_bytes(cls, name: str, body: bytes, modified_ns: int) -> "LogSource":
        """Return the source of a log that was sent as a whole."""
        return cls(name, lambda: io.BytesIO(body), modified_ns)


class _Gunzip(gzip.GzipFile):
    """A compressed file that ends where it can be read no further, as a log does that was cut."""

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (EOFError, zlib.error):
            return b""


def _open_gzip(path: Path) -> BinaryIO:
    return cast("BinaryIO", _Gunzip(path))


def printable_name(path: Path) -> str:
    """Return a file's name as text; bytes that are none become question marks."""
    return path.name.encode("utf-8", errors="replace").decode("utf-8")


def with_head(head: bytes, stream: BinaryIO) -> BinaryIO:
    """Return a stream from its start, of which `head` was read already."""
    return io.BufferedReader(Concatenation(iter((io.BytesIO(head), stream))))


def pack(sources: Sequence[LogSource], into: BinaryIO) -> None:
    """Write several logs as one archive: the same bytes for the same logs."""
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for index, source in enumerate(sources):
            with source.open() as stream, tempfile.TemporaryFile() as copy:
                # A folder's stream knows no size.
                shutil.copyfileobj(stream, copy)
                size = copy.tell()
                copy.seek(0)
                # Two logs may have the same name.
                member = tarfile.TarInfo(f"{index:03}/{source.name}")
                member.size = size
                member.mtime = source.modified_ns // 10**9
                archive.addfile(member, copy)


def unpack(source: LogSource) -> tuple[LogSource, ...]:
    """Return the logs of an archive, or the source itself when it is none.

    Raises:
        UnreadableLogError: It is a damaged archive, or holds too many files.
    """
    with source.open() as stream:
        head = stream.read(_TAR_HEAD_BYTES)
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] != _TAR_MAGIC:
        return (source,)
    try:
        with source.open() as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            members = [member for member in archive if member.isfile()]
    except tarfile.TarError as error:
        raise UnreadableLogError(f"{source.name} is a damaged archive.") from error
    if not 0 < len(members) <= _MAX_MEMBERS:
        raise UnreadableLogError(
            f"{source.name} is an archive of {len(members)} files.", "Name the logs in it."
        )
    return tuple(_of_member(source, member) for member in members)


def _of_member(source: LogSource, member: tarfile.TarInfo) -> LogSource:
    def open_member() -> BinaryIO:
        section = Section(source.open(), member.offset_data, member.size)
        return io.BufferedReader(section)

    modified_ns = round(member.mtime * 1e9) or source.modified_ns
    return LogSource(Path(member.name).name, open_member, modified_ns)


def _of_folder(path: Path) -> LogSource:
    if is_mlflow_folder(path):
        files = list_metric_files(path)
        return LogSource(
            printable_name(path), lambda: open_mlflow_folder(path), _newest_ns(files, path)
        )
    events = sorted(path.glob(_EVENT_FILES))
    if events:
        # A training that was started again goes on in another file: records just follow.
        return LogSource(
            printable_name(path),
            lambda: io.BufferedReader(Concatenation(_open_all(events))),
            _newest_ns(events, path),
        )
    runs = sorted(file for pattern in _RUN_FILES for file in path.glob(pattern))
    if len(runs) == 1:
        return LogSource.of_file(runs[0])
    raise UnreadableLogError(
        f"{path} is a directory; name a log file in it.",
        "Directories that are read: an MLflow run, TensorBoard event files, a wandb offline run, a "
        "swanlab run; by `longpole import` also what `longpole export` wrote.",
    )


def _open_all(files: Sequence[Path]) -> Iterator[BinaryIO]:
    for file in files:
        with file.open("rb") as stream:
            yield stream


def _newest_ns(files: Sequence[Path], folder: Path) -> int:
    return max((file.stat().st_mtime_ns for file in files), default=folder.stat().st_mtime_ns)
