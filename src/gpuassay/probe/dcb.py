"""Which priorities each network interface pauses instead of dropping (PFC), asked of the kernel by netlink.

One message per interface, DCB_CMD_IEEE_GET of linux/dcbnl.h: it needs no privilege and changes nothing.
"""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH112, PTH208
from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread, unread_because

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_ROUTE = 0
_REQUEST, _ERROR, _GET_DCB = 1, 2, 78  # NLM_F_REQUEST, NLMSG_ERROR, RTM_GETDCB
_IEEE_GET, _ATTR_NAME, _ATTR_IEEE, _ATTR_IEEE_PFC = 21, 1, 13, 2
_TYPE = 0x3FFF  # of an attribute, without its flags
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_FAMILY = struct.Struct("=BBH")  # dcbmsg
_ATTRIBUTE = struct.Struct("=HH")  # nlattr
_ANSWER_S = 2.0


def dcb(folder: str = "/sys/class/net") -> dict[str, Any]:
    """Ask for the lossless priorities of every interface that has a device. Raises OSError."""
    names = [name for name in sorted(os.listdir(folder)) if os.path.isdir(f"{folder}/{name}/device")]
    if not names:
        return {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as route:
        route.settimeout(_ANSWER_S)
        route.bind((0, 0))
        return {name: _asked(route, name, number) for number, name in enumerate(names, 1)}


def _asked(route: socket.socket, name: str, number: int) -> dict[str, Any]:
    try:
        route.send(question(name, number))
        while True:
            data = route.recv(1 << 16)
            if len(data) >= _HEADER.size and _HEADER.unpack_from(data)[3] == number:  # not a late one
                return answer(data)
    except OSError as error:
        return unread_because(error)


def question(name: str, number: int) -> bytes:
    """Write the message that asks for one interface."""
    text = name.encode() + b"\0"
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(text), _ATTR_NAME) + text
    body = _FAMILY.pack(socket.AF_UNSPEC, _IEEE_GET, 0) + attribute + b"\0" * (-len(attribute) % 4)
    return _HEADER.pack(_HEADER.size + len(body), _GET_DCB, _REQUEST, number, 0) + body


def answer(data: bytes) -> dict[str, Any]:
    """Read what came back: ``{"pfc": [3]}``, or why there is none."""
    _, kind, _, _, _ = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if kind == _ERROR:
        number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
        if number == errno.EOPNOTSUPP:
            return unread("unsupported", "the driver has no such setting")
        return unread_because(OSError(number, os.strerror(number)))
    for outer, inside in _attributes(body[_FAMILY.size :]):
        for inner, value in _attributes(inside) if outer == _ATTR_IEEE else ():
            if inner == _ATTR_IEEE_PFC and len(value) > 1:
                return {"pfc": [priority for priority in range(8) if value[1] >> priority & 1]}
    return unread("unsupported", "the driver says nothing of priorities")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= length <= len(data):
            return
        yield kind & _TYPE, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
