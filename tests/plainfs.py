"""The least file system in user space: a root that is there and has room. `python plainfs.py PATH` serves it.

It speaks the kernel's protocol (linux/fuse.h) itself, so that no library is needed; while its process is
stopped, whoever asks for the place hangs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_GETATTR, _STATFS, _INIT, _FORGET, _INTERRUPT, _BATCH_FORGET = 3, 17, 26, 2, 36, 42
_UNANSWERED = (_FORGET, _INTERRUPT, _BATCH_FORGET)
_ASKED = struct.Struct("IIQQIIII")  # fuse_in_header: length, opcode, unique, node, uid, gid, pid, padding
_ANSWER = struct.Struct("IiQ")  # fuse_out_header: length, error, unique
_INITED = struct.Struct("IIIIHHIIHHI28x")  # fuse_init_out, as since protocol 7.23
_ATTRIBUTES = struct.Struct("QII 6Q 10I")  # fuse_attr_out
_ROOM = struct.Struct("5Q 4I 24x")  # fuse_kstatfs
_FOLDER = 0o040755
_MOST = 1 << 17


def main(path: str) -> None:
    """Mount it, and answer until it is unmounted."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"plainfs", path.encode(), b"fuse.plainfs", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    while True:
        try:
            asked = os.read(device, _MOST)
        except OSError:  # unmounted
            return
        _, operation, unique, *_ = _ASKED.unpack_from(asked)
        if operation not in _UNANSWERED:
            os.write(device, _answer(operation, unique))


def _answer(operation: int, unique: int) -> bytes:
    told = {
        _INIT: _INITED.pack(7, 31, 1 << 16, 0, 1, 1, 1 << 16, 1, 0, 0, 0),
        _GETATTR: _ATTRIBUTES.pack(0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, _FOLDER, 2, 0, 0, 0, 4096, 0),
        _STATFS: _ROOM.pack(1024, 1024, 1024, 1024, 1024, 4096, 255, 4096, 0),
    }.get(operation)
    error = 0 if told else -errno.ENOSYS
    return _ANSWER.pack(_ANSWER.size + len(told or b""), error, unique) + (told or b"")


if __name__ == "__main__":
    main(sys.argv[1])
