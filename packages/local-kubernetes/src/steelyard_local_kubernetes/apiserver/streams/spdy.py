"""SPDY/3.1 as far as `kubectl port-forward` speaks it, inside a WebSocket: frames read from bytes, and written."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 1
REFUSED, CANCELLED = 3, 5
MAX_FRAME = 1 << 20  # Go's clients send 32 KiB
MAX_HEADERS = 1 << 16
_HEAD = struct.Struct(">II")
_CONTROL, _VERSION = 1 << 31, 3
_WORDS = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,accept-rang"
    "es,age,allow,authorization,cache-control,connection,content-base,content-encoding,content-language,c"
    "ontent-length,content-location,content-md5,content-range,content-type,date,etag,expect,expires,from,"
    "host,if-match,if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,ma"
    "x-forwards,pragma,proxy-authenticate,proxy-authorization,range,referer,retry-after,server,te,trailer"
    ",transfer-encoding,upgrade,user-agent,vary,via,warning,www-authenticate,method,get,status,200 OK,ver"
    "sion,HTTP/1.1,url,public,set-cookie,keep-alive,origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au"
    "thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd"
    "en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma"
    "y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag"
    "e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri"
    "vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(len(word).to_bytes(4, "big") + word.encode() for word in _WORDS.split(",")) + _REST.encode()
)


class SpdyError(ValueError):
    """Bytes that are not SPDY, or more than anybody sends."""


@dataclass(frozen=True)
class Frame:
    """One frame; `kind` is 0 for data."""

    kind: int
    stream: int = 0
    flags: int = 0
    data: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def fin(self) -> bool:
        return bool(self.flags & FIN)


class Spdy:
    """One side of a connection: compression lasts from its first header to its last."""

    def __init__(self) -> None:
        self._rest = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def read(self, data: bytes) -> Iterator[Frame]:
        """Frames that are whole; the rest stays for the next bytes. Raises SpdyError."""
        self._rest += data
        while len(self._rest) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._rest)
            flags, size = second >> 24, second & 0xFFFFFF
            if size > MAX_FRAME:
                raise SpdyError(f"a frame of {size} bytes")
            if len(self._rest) < _HEAD.size + size:
                return
            content = self._rest[_HEAD.size : _HEAD.size + size]
            self._rest = self._rest[_HEAD.size + size :]
            if not first & _CONTROL:
                yield Frame(0, first, flags, content)
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise SpdyError(f"version {first >> 16 & 0x7FFF} and not {_VERSION}")
            yield self._control(first & 0xFFFF, flags, content)

    def _control(self, kind: int, flags: int, content: bytes) -> Frame:
        before = {SYN_STREAM: 10, SYN_REPLY: 4, HEADERS: 4, RST_STREAM: 8, PING: 4}.get(kind, 0)
        if len(content) < before:
            raise SpdyError(f"a frame of kind {kind} with {len(content)} bytes")
        stream = int.from_bytes(content[:4], "big") & 0x7FFFFFFF if before else 0
        # Also those that no caller asks for: without them the next ones could not be read.
        compressed = kind in (SYN_STREAM, SYN_REPLY, HEADERS)
        headers = self._headers(content[before:]) if compressed else {}
        return Frame(kind, stream, flags, content, headers)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, MAX_HEADERS)
        except zlib.error as error:
            raise SpdyError(str(error)) from error
        # A few bytes can be gigabytes of headers.
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {MAX_HEADERS} bytes")
        at, texts = 4, []
        for _ in range(2 * int.from_bytes(text[:4], "big")):
            size = int.from_bytes(text[at : at + 4], "big")
            if at + 4 + size > len(text):
                raise SpdyError("headers that are cut off")
            texts.append(text[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        return self._control_frame(SYN_REPLY, struct.pack(">I", stream) + self._compress({}))

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        """Begin a stream, as clients do."""
        return self._control_frame(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._compress(headers))

    def _compress(self, headers: dict[str, str]) -> bytes:
        texts = [text.encode("latin-1") for pair in headers.items() for text in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(t)) + t for t in texts)
        return self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _control_frame(self, kind: int, content: bytes) -> bytes:
        return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(content)) + content

    def data(self, stream: int, content: bytes, *, fin: bool = False) -> bytes:
        return _HEAD.pack(stream, (FIN << 24 if fin else 0) | len(content)) + content

    def reset(self, stream: int, status: int) -> bytes:
        return self._control_frame(RST_STREAM, struct.pack(">II", stream, status))

    def ping(self, number: int) -> bytes:
        return self._control_frame(PING, struct.pack(">I", number))
