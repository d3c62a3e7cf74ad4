"""A language model behind a server that speaks OpenAI's chat completions: a connection, kept, that can be cut at once.

The HTTP is the standard library's. A client that pools connections does not show the socket before the answer begins,
and closing it from another thread does not wake who waits on it: such a wait cannot be cancelled.

The key comes from the environment variable OPENAI_API_KEY. It is read for each request, kept nowhere, sent to no host
but the one named, and never part of a message.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import select
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator

from voxpath.engines.cancel import Cancel
from voxpath.errors import ModelError

LONGEST_LINE = 256 * 1024  # bytes of one event; a piece of text is some hundred
LONGEST_LIST = 4 * 1024 * 1024  # bytes of the list of models
LONGEST_TOLD = 200  # characters of what the server says about an error
DRAIN_S = 0.05  # what may pass between the end of a reply and the end of the answer, or the connection is not kept
KEY = "OPENAI_API_KEY"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Server:
    """Chat completions of one model at one address.

    >>> server = Server.parse("http://localhost:8080/v1,smollm2")
    >>> server.check()
    >>> for piece in server.chat([{"role": "user", "content": "Hi"}], 60, cancel): ...   # str
    """

    def __init__(self, url: str, model: str | None = None, timeout_s: float = 3.0) -> None:
        """`timeout_s` is how long the server may say nothing. Raises ModelError for a URL that is none."""
        parts = _parts(url)
        self.url = url.rstrip("/")
        self.model = model
        self.timeout_s = timeout_s
        self._path = parts.path.rstrip("/")
        self._host = parts.netloc
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._name = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._found: list = []  # its addresses
        self._lock = threading.Lock()
        self._idle: socket.socket | None = None

    @classmethod
    def parse(cls, text: str) -> Server:
        """The server that an option value `URL[,MODEL]` names. Raises ModelError."""
        url, _, model = text.partition(",")
        return cls(url.strip(), model.strip() or None)

    def check(self) -> None:
        """Reach the server and, if no model was named, take the first that it has. Raises ModelError."""
        with self._explained(), self._wire() as wire:
            response = self._ask(wire, "GET", "/models")
            content = response.read(LONGEST_LIST)
            self._see_end(wire, response)
        if self.model is None:
            self.model = self._first_model(content)

    def chat(
        self, messages: list[dict[str, str]], limit: int, cancel: Cancel, traceparent: str | None = None
    ) -> Iterator[str]:
        """Pieces of the reply to `messages` ({"role": ..., "content": ...}), at most `limit` tokens, as they come.

        Whoever stops early closes the iterator, which ends the request. Raises Cancelled, at most a few milliseconds
        after `cancel` is set, and ModelError for whatever else goes wrong. The wait for a first `check` and the first
        look-up of the server's name cannot be cancelled: call `check` at start.
        """
        if self.model is None:
            self.check()
        wanted = {"model": self.model, "messages": messages, "max_tokens": limit, "temperature": 0, "stream": True}
        body = json.dumps(wanted).encode()
        with self._explained(cancel), self._wire() as wire, cancel.interrupting(wire.cut):
            response = self._ask(wire, "POST", "/chat/completions", body, traceparent)
            kind = response.headers.get_content_type()
            if kind != "text/event-stream":
                raise ModelError(f"{self.url} answers with {_printable(kind)}, not a stream of events: check the URL.")
            for count, piece in enumerate(self._pieces(wire, response)):
                cancel.check()
                if count == limit:
                    return  # a server that does not care how much was wanted
                yield piece
            cancel.check()
            self._see_end(wire, response)

    def _ask(
        self, wire: _Wire, method: str, path: str, body: bytes | None = None, traceparent: str | None = None
    ) -> http.client.HTTPResponse:
        """Send a request; its response, headers read, if it is a good one."""
        while True:
            fresh = not wire.connected
            if fresh:
                self._connect(wire)
            connection = http.client.HTTPConnection(self._host)
            connection.sock = wire
            try:
                connection.request(method, self._path + path, body, self._headers(traceparent))
                response = connection.getresponse()
                break
            except (ConnectionResetError, BrokenPipeError):
                if fresh:
                    raise
                wire.drop()  # it was a kept one, which the server has closed by now
        if response.status != 200:
            raise ModelError(self._refusal(response))
        return response

    def _headers(self, traceparent: str | None) -> dict[str, str]:
        headers = {"Host": self._host, "User-Agent": "voxpath", "Content-Type": "application/json"}
        if key := _key():
            headers["Authorization"] = f"Bearer {key}"
        if traceparent is not None:
            headers["traceparent"] = traceparent
        return headers

    def _connect(self, wire: _Wire) -> None:
        try:
            self._found = self._found or socket.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
            wire.connect(self._found)
        except OSError:
            self._found = []  # it may have moved
            raise

    def _pieces(self, wire: _Wire, response: http.client.HTTPResponse) -> Iterator[str]:
        """The pieces of text in a stream of events, empty ones left out. Only events prolong the wait."""
        finished = False
        for line in self._lines(response):
            data = line[len(b"data:") :].strip()
            if not line.startswith(b"data:") or not data:
                continue  # a comment, the end of an event or another field
            if data == b"[DONE]":
                return
            piece, last = self._piece(data)
            finished = finished or last
            if piece:
                yield piece
            wire.deadline = time.monotonic() + self.timeout_s
        if not finished:
            raise ModelError(f"{self.url} broke its reply off: see the server's log.")

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """Lines as soon as they are whole, without their ends."""
        rest = b""
        while part := response.read1(16384):
            *whole, rest = _LINE_END.split(rest + part)
            yield from whole
            if len(rest) > LONGEST_LINE:
                raise ModelError(f"{self.url} streams a line without end: check the URL.")
        yield rest

    def _piece(self, data: bytes) -> tuple[str, bool]:
        """The text of one event, and whether it is the last that has one."""
        try:
            event = json.loads(data.decode(errors="replace"))
            if event.get("error"):
                raise ModelError(f"{self.url} gave up: {_told(event) or 'no reason given'}.")
            if not event["choices"]:
                return "", False  # only figures of usage
            choice = event["choices"][0]
            text = (choice.get("delta") or {}).get("content") or ""
            # Half a character, written as \ud83d, must not reach who cannot encode it.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return text, bool(choice.get("finish_reason"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ModelError(f"{self.url} streams what is no chat completion: check the URL.") from None

    def _first_model(self, content: bytes) -> str:
        try:
            models = [str(model["id"]) for model in json.loads(content)["data"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ModelError(
                f"{self.url}/models is no list of models: check the URL, which often ends in /v1."
            ) from None
        if not models:
            raise ModelError(f"{self.url} has no model: load one into the server, or name one after a comma.")
        return models[0]

    def _refusal(self, response: http.client.HTTPResponse) -> str:
        """What a response that is no good one means."""
        status = response.status
        if status == 401:
            return f"{self.url} asks for a key: " + (
                f"it refused the one in {KEY}." if _key() else f"set the environment variable {KEY}."
            )
        if 300 <= status < 400:
            there = _printable(response.headers.get("Location") or "elsewhere")
            return f"{self.url} redirects to {there}: name the address that answers itself."
        try:
            told = _told(json.loads(response.read(8192)))
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            told = ""
        told = told or _printable(response.reason) or "no reason given"
        hint = "; check the URL, which often ends in /v1, and the model's name" if status == 404 else ""
        return f"{self.url} answers {status} ({told}){hint}."

    @contextlib.contextmanager
    def _wire(self) -> Iterator[_Wire]:
        """The kept connection if it still stands, or one that is not yet made; kept again if it may be."""
        with self._lock:
            kept, self._idle = self._idle, None
        if kept is not None and not _quiet(kept):
            kept.close()
            kept = None
        wire = _Wire(self._name, self._tls, kept)
        wire.deadline = time.monotonic() + self.timeout_s
        try:
            yield wire
            if wire.ended:
                with self._lock:
                    if self._idle is None:
                        self._idle = wire.release()
        finally:
            wire.drop()

    @staticmethod
    def _see_end(wire: _Wire, response: http.client.HTTPResponse) -> None:
        """Read what still belongs to a response, so that its connection can be kept."""
        wire.deadline = time.monotonic() + DRAIN_S
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            response.read(LONGEST_LINE)
            wire.ended = response.isclosed() and not response.will_close

    @contextlib.contextmanager
    def _explained(self, cancel: Cancel | None = None) -> Iterator[None]:
        """Whatever fails in the body is one sentence, or Cancelled if that is why."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError, ModelError) as error:
            if cancel is not None:
                cancel.check()
            if isinstance(error, ModelError):
                raise
            raise ModelError(self._sentence(error)) from None

    def _sentence(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{self._name} is not trusted ({error.verify_message}): check the URL and the server's certificate."
        if isinstance(error, ssl.SSLError):
            return f"TLS with {self.url} failed: check that it is https there, not http."
        if isinstance(error, TimeoutError):
            return (
                f"{self.url} said nothing for {self.timeout_s:g} s: check that the server runs and is not overloaded."
            )
        if isinstance(error, (socket.gaierror, UnicodeError)):
            return f"{self._name} has no address: check the name and the network."
        if isinstance(error, ConnectionRefusedError):
            return f"{self.url} refuses connections: check that the server runs and listens there."
        if isinstance(error, (ConnectionError, http.client.IncompleteRead)):
            return f"{self.url} broke the connection off: see the server's log."
        if isinstance(error, http.client.HTTPException):
            return f"{self.url} does not answer in HTTP: check the URL."
        return f"{self.url} cannot be reached ({error.strerror or 'no reason given'}): check the network."


class _Wire:
    """A connection, for one request, that another thread can cut at any moment; every wait on it ends at `deadline`.

    http.client takes it for its socket, but does not open it, and to it `close` does nothing.
    """

    def __init__(self, name: str, tls: ssl.SSLContext | None, kept: socket.socket | None) -> None:
        self.deadline = 0.0  # s of the monotonic clock
        self.ended = False  # whether the last response was read to its end
        self._name, self._tls = name, tls
        self._lock = threading.Lock()
        self._socket = kept
        self._is_cut = False

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def connect(self, addresses: list) -> None:
        """Connect to the first of `addresses` (as of getaddrinfo) that answers. Raises OSError."""
        for family, kind, protocol, _, address in addresses:
            try:
                self._hold(socket.socket(family, kind, protocol))
                self._timed().connect(address)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                break
            except OSError as error:
                self.drop()
                failure = error
        else:
            raise failure
        if self._tls is not None:
            plain = self._timed()
            self._hold(self._tls.wrap_socket(plain, server_hostname=self._name, do_handshake_on_connect=False))
            self._timed().do_handshake()

    def sendall(self, data: bytes) -> None:
        self._timed().sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """For http.client, which would close it while a response is still read."""

    def read_into(self, buffer) -> int:
        timed = self._timed()
        # A server that gathers small writes sends none before the last is acknowledged, by default 40 ms later.
        if hasattr(socket, "TCP_QUICKACK"):
            timed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return timed.recv_into(buffer)

    def cut(self) -> None:
        """End it for good, from another thread: whoever waits on it gets an error at once."""
        with self._lock:
            self._is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Not SSLSocket's own, which takes the TLS away from under a reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def drop(self) -> None:
        """Close it; `connect` may open it anew."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def release(self) -> socket.socket | None:
        """The connection for another request, unless it was cut; a cut that comes later does not reach it."""
        with self._lock:
            if self._is_cut:
                return None
            released, self._socket = self._socket, None
            return released

    def _hold(self, made: socket.socket) -> None:
        with self._lock:
            self._socket = made
            if self._is_cut:
                raise ConnectionAbortedError

    def _timed(self) -> socket.socket:
        """The socket, waiting no longer than to the deadline."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket


class _Reader(io.RawIOBase):
    """What http.client reads a response from."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._wire.read_into(buffer)


def _quiet(kept: socket.socket) -> bool:
    """Whether the other side has neither closed a connection nor said anything unasked."""
    poll = select.poll()
    poll.register(kept, select.POLLIN)
    return not poll.poll(0)


def _parts(url: str) -> urllib.parse.SplitResult:
    """A URL in its parts. The sentence of an error does not show one that may hold a password."""
    example = "write it like http://localhost:8080/v1"
    try:
        parts = urllib.parse.urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        raise ModelError(f"The server's URL is none: {example}.") from None
    if "@" in url:
        raise ModelError(f"A server's URL must not hold a name or password: {example}, and put the key into {KEY}.")
    if parts.query or parts.fragment:
        raise ModelError(f"A server's URL must end with its path: {example}.")
    if parts.scheme not in ("http", "https") or not name or port == 0 or not re.fullmatch(r"[!-~]+", url):
        raise ModelError(f"{_printable(url) or 'Nothing'} is no server's URL: {example}.")
    return parts


def _key() -> str | None:
    key = os.environ.get(KEY, "").strip()
    if not re.fullmatch(r"[!-~]*", key):  # http.client would show it in its error
        raise ModelError(f"{KEY} holds characters that no key has: copy it again.")
    return key or None


def _told(answer: object) -> str:
    """What the server says about an error, in its JSON."""
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return _printable(message).rstrip(".") if isinstance(message, str) else ""


def _printable(text: str) -> str:
    """Text from outside as it may be shown: short, of one line, without the key."""
    text = urllib.parse.unquote("".join(char for char in text if char.isprintable() or char.isspace()))
    if key := os.environ.get(KEY, "").strip():
        text = re.sub(re.escape(key), "...", text, flags=re.IGNORECASE)
    return "".join(char if char.isprintable() else " " for char in text)[:LONGEST_TOLD].strip()
