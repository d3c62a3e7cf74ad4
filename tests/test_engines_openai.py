"""A chat server on this machine, kind and hostile, and what is made of its answers."""

import contextlib
import itertools
import json
import socket
import ssl
import subprocess
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.engines.openai import Server
from voxpath.errors import ModelError, VoxpathError

SECRET = "sk-test-5d1f0c"
HELLO = [{"role": "user", "content": "Hi"}]


def event(text, **choice):
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}, **choice}]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


class Stub:
    """Answers each POST with the parts in `parts` (a number is a pause in seconds, an Event is waited for)."""

    def __init__(self):
        self.models = [{"id": "first"}, {"id": "second"}]
        self.parts = [event("Hello"), event(" there.", finish_reason="stop"), DONE]
        self.status, self.headers = 200, {"Content-Type": "text/event-stream"}
        self.requests = []  # (client's port, path, headers, JSON)
        self.left = threading.Event()  # set once a client has gone while it was written to
        self.stop = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def note(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                said = json.loads(body) if body else None
                stub.requests.append((self.client_address[1], self.path, self.headers, said))

            def do_GET(self):
                self.note()
                content = json.dumps({"data": stub.models}).encode() if stub.status == 200 else b"{}"
                self.send_response(stub.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self):
                self.note()
                try:
                    self.send_response(stub.status)
                    for name, value in stub.headers.items():
                        self.send_header(name, value)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for part in stub.parts:
                        if isinstance(part, float):
                            stub.stop.wait(part)
                        elif isinstance(part, threading.Event):
                            part.wait(10)
                        elif part is None:  # go without a word
                            self.close_connection = True
                            return
                        else:
                            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    self.close_connection = True
                    stub.left.set()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def stub():
    with contextlib.closing(Stub()) as made:
        yield made


@contextlib.contextmanager
def raw(answer):
    """A server that gives each connection to `answer(connection)`, in bytes; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.shutdown(socket.SHUT_RDWR)


def reply(server, limit=60, cancel=None, **arguments):
    return list(server.chat(HELLO, limit, cancel or Cancel(), **arguments))


def error_of(run, *arguments, **keywords):
    """The one sentence of the ModelError that a call ends with."""
    with pytest.raises(ModelError) as caught:
        run(*arguments, **keywords)
    sentence = str(caught.value)
    assert caught.value.__cause__ is None  # whose frames may hold the key
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_a_reply_comes_in_its_pieces(stub):
    assert reply(Server(stub.url, "m")) == ["Hello", " there."]
    _, path, headers, said = stub.requests[0]
    assert path == "/v1/chat/completions"
    assert said == {"model": "m", "messages": HELLO, "max_tokens": 60, "temperature": 0, "stream": True}
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers and "traceparent" not in headers


def test_a_piece_is_given_before_the_next_is_written(stub):
    go_on = threading.Event()
    stub.parts = [event("One"), go_on, event(" two.", finish_reason="stop"), DONE]
    pieces = Server(stub.url, "m", timeout_s=10).chat(HELLO, 60, Cancel())
    assert next(pieces) == "One"
    go_on.set()
    assert list(pieces) == [" two."]


def test_the_key_and_the_trace_are_sent_in_headers(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET + "\n")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    reply(Server(stub.url, "m"), traceparent=trace)
    assert stub.requests[0][2]["Authorization"] == "Bearer " + SECRET
    assert stub.requests[0][2]["traceparent"] == trace


def test_the_connection_is_kept_between_turns(stub):
    server = Server(stub.url)
    server.check()
    reply(server)
    reply(server)
    assert len({port for port, *_ in stub.requests}) == 1


def test_a_kept_connection_that_the_server_closed_is_made_anew(stub):
    server = Server(stub.url, "m")
    stub.headers["Keep-Alive"] = "timeout=0"
    stub.headers["Connection"] = "keep-alive"
    reply(server)
    kept = server._idle
    kept.shutdown(socket.SHUT_RDWR)
    assert reply(server) == ["Hello", " there."]
    assert len({port for port, *_ in stub.requests}) == 2


def test_a_kept_connection_that_closes_as_it_is_used_is_made_anew():
    answered = []

    def answer(connection):
        connection.recv(65536)
        if not answered:
            body = event("ok", finish_reason="stop") + DONE
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            connection.recv(65536)  # the second request: closed without an answer
            answered.append(1)
            return
        body = event("again", finish_reason="stop") + DONE
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body)

    with raw(answer) as url:
        server = Server(url, "m")
        assert reply(server) == ["ok"]
        assert reply(server) == ["again"]


def test_what_a_server_says_unasked_is_no_answer():
    def answer(connection):
        connection.recv(65536)
        body = event("ok", finish_reason="stop") + DONE
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        asked.wait(10)
        connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        said.set()
        connection.recv(65536)

    asked, said = threading.Event(), threading.Event()
    with raw(answer) as url:
        server = Server(url, "m")
        assert reply(server) == ["ok"]
        asked.set()
        assert said.wait(10)
        assert reply(server) == ["ok"]


def test_the_model_is_the_first_one_unless_it_is_named(stub):
    server = Server(stub.url)
    server.check()
    assert server.model == "first"
    named = Server(stub.url, "other")
    named.check()
    assert named.model == "other"
    unchecked = Server(stub.url)
    assert reply(unchecked) == ["Hello", " there."]
    assert unchecked.model == "first"


@pytest.mark.parametrize(
    ("text", "url", "model"),
    [
        ("http://localhost:8080/v1,smollm2", "http://localhost:8080/v1", "smollm2"),
        ("https://api.example.com/v1/", "https://api.example.com/v1", None),
        ("http://[::1]:1/v1, org/model:8b ", "http://[::1]:1/v1", "org/model:8b"),
    ],
)
def test_an_option_names_a_server_and_perhaps_a_model(text, url, model):
    server = Server.parse(text)
    assert (server.url, server.model) == (url, model)


@pytest.mark.parametrize(
    "text",
    ["", ",m", "localhost:8080", "ftp://h/v1", "http://", "http://h:99999/v1", "http://[::1/v1", "http://h/v 1"]
    + ["http://h/v1?key=1", "http://h/v1#a", "http://h:0/v1", "http://h\u00e9/v1", "http://h/v1\r\nX: y"],
)
def test_a_bad_url_is_one_sentence(text):
    assert "http://localhost:8080/v1" in error_of(Server.parse, text)
    assert issubclass(ModelError, VoxpathError)


def test_a_password_in_a_url_is_refused_and_not_shown():
    assert SECRET not in error_of(Server.parse, f"https://user:{SECRET}@h/v1")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_may_be_split_over_chunks_at_any_byte(stub, size):
    stream = 'data: {"choices": [{"delta": {"content": "Grüße, 世界 😀"}}]}\r\n\r\n'.encode()
    stream += event("!", finish_reason="stop") + DONE
    stub.parts = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert "".join(reply(Server(stub.url, "m"))) == "Grüße, 世界 😀!"


def test_what_carries_no_text_is_passed_over(stub):
    stub.parts = [
        b": keep-alive\n\n",
        b"event: message\nid: 7\nretry: 10\ndata:\n\n",
        b'data: {"choices": [{"delta": {"role": "assistant", "content": null}}]}\n\n',
        b'data: {"choices": [{"delta": {}}], "error": null}\n\n',
        b'data:{"choices": [{"delta": {"content": "Yes."}}]}\r',
        event("", finish_reason="stop"),
        b'data: {"choices": [], "usage": {"total_tokens": 9}}\n\n',
        DONE,
    ]
    assert reply(Server(stub.url, "m")) == ["Yes."]


def test_a_stream_may_end_without_a_mark_once_the_reply_is_finished(stub):
    stub.parts = [event("Yes.", finish_reason="stop")]
    assert reply(Server(stub.url, "m")) == ["Yes."]


def test_half_a_character_is_replaced(stub):
    stub.parts = [b'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n', DONE]
    assert reply(Server(stub.url, "m")) == ["a\ufffd"]


def test_a_server_that_ignores_the_limit_is_cut_off(stub):
    stub.parts = [event("word ")] * 10_000
    assert reply(Server(stub.url, "m"), limit=5) == ["word "] * 5


def test_whoever_stops_early_ends_the_request(stub):
    stub.parts = [event("One"), *[event(" more"), 0.01] * 1000]
    pieces = Server(stub.url, "m").chat(HELLO, 5000, Cancel())
    next(pieces)
    pieces.close()
    assert stub.left.wait(10)


@contextlib.contextmanager
def before_headers():
    with raw(lambda connection: time.sleep(30)) as url:
        yield url


@contextlib.contextmanager
def mid_stream():
    with contextlib.closing(Stub()) as stub:
        stub.parts = [event("One"), 30.0]
        yield stub.url


@contextlib.contextmanager
def mid_line():
    with contextlib.closing(Stub()) as stub:
        stub.parts = [event("One"), b"data: {", 30.0]
        yield stub.url


@contextlib.contextmanager
def connecting():
    """A queue that is full answers nobody who wants in."""
    with socket.socket() as listener, contextlib.ExitStack() as clients:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@contextlib.contextmanager
def shaking_hands():
    with before_headers() as url:
        yield url.replace("http:", "https:")


@pytest.mark.parametrize("blocked", [before_headers, mid_stream, mid_line, connecting, shaking_hands])
def test_a_cancel_ends_any_wait(blocked):
    with blocked() as url:
        cancel, raised = Cancel(), []

        def run():
            try:
                reply(Server(url, "m", timeout_s=30), cancel=cancel)
            except BaseException as error:
                raised.append(type(error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()  # it waits
        cancel.set()
        thread.join(5)  # far less than the server's 30 s
        assert raised == [Cancelled]


def test_a_cancel_while_the_name_is_looked_up_lets_nothing_be_sent(stub, monkeypatch):
    cancel, look_up = Cancel(), socket.getaddrinfo

    def slow(*arguments, **keywords):
        cancel.set()
        return look_up(*arguments, **keywords)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(Cancelled):
        reply(Server(stub.url, "m"), cancel=cancel)
    assert not stub.requests


def test_a_cancel_while_nobody_asks_for_the_next_piece_is_seen_at_it(stub):
    cancel = Cancel()
    pieces = Server(stub.url, "m").chat(HELLO, 60, cancel)
    next(pieces)
    cancel.set()
    with pytest.raises(Cancelled):
        next(pieces)
    with pytest.raises(Cancelled):
        reply(Server(stub.url, "m"), cancel=cancel)
    assert len(stub.requests) == 1


def test_after_a_cancel_the_next_turn_is_answered(stub):
    server, cancel = Server(stub.url, "m"), Cancel()
    pieces = server.chat(HELLO, 60, cancel)
    next(pieces)
    cancel.set()
    pieces.close()
    assert reply(server) == ["Hello", " there."]


@pytest.mark.parametrize(
    "quiet",
    [
        [30.0],
        [event("One"), 30.0],
        [event("One"), *[b": keep-alive\n\n", 0.05] * 600],
        itertools.repeat(b": keep-alive\n\n"),
    ],
)
def test_a_server_that_says_nothing_is_given_up(stub, quiet):
    stub.parts = quiet
    assert "said nothing for 0.2 s" in error_of(reply, Server(stub.url, "m", timeout_s=0.2))


def test_a_slow_listener_is_not_a_slow_server(stub):
    go_on = threading.Event()
    stub.parts = [event("Hello"), go_on, event(" there.", finish_reason="stop"), DONE]
    pieces = Server(stub.url, "m", timeout_s=1).chat(HELLO, 60, Cancel())
    assert next(pieces) == "Hello"
    time.sleep(1.1)
    go_on.set()
    assert list(pieces) == [" there."]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([b"data: " + b"x" * 4096] * 200, "a line without end"),
        ([b"x" * 4096] * 200, "a line without end"),
        ([b"data: {nonsense\n\n"], "no chat completion"),
        ([b"data: [1, 2]\n\n"], "no chat completion"),
        ([b"data: null\n\n"], "no chat completion"),
        ([b'data: {"choices": 5}\n\n'], "no chat completion"),
        ([b'data: {"choices": [{"delta": {"content": 5}}]}\n\n'], "no chat completion"),
        ([b"data: " + b"[" * 100_000 + b"\n\n"], "no chat completion"),
        ([b"data: \xff\xfe\n\n"], "no chat completion"),
        ([event("One"), None], "broke"),
        ([event("One")], "broke its reply off"),
        ([], "broke its reply off"),
        ([b'data: {"error": {"message": "out of\\nmemory."}}\n\n'], "gave up: out of memory."),
    ],
)
def test_a_hostile_stream_is_one_sentence(stub, parts, sentence):
    stub.parts = parts
    assert sentence in error_of(reply, Server(stub.url, "m"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000,
        b"HTTP/1.1 200 " + b"a" * 70_000,
    ],
)
def test_what_is_not_http_is_one_sentence(answer):
    def give(connection):
        connection.recv(65536)
        connection.sendall(answer)

    with raw(give) as url:
        error_of(reply, Server(url, "m"))
        error_of(Server(url).check)


def test_a_chunk_of_nonsense_is_one_sentence():
    def give(connection):
        connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"zz\r\ndata")

    with raw(give) as url:
        assert "broke" in error_of(reply, Server(url, "m"))


def test_another_content_type_is_one_sentence(stub):
    stub.headers = {"Content-Type": "text/html"}
    assert "text/html" in error_of(reply, Server(stub.url, "m"))


@pytest.mark.parametrize(
    ("status", "sentence"), [(404, "check the URL"), (429, "answers 429 (busy)"), (500, "answers 500 (busy)")]
)
def test_an_http_error_is_told_with_the_servers_reason(stub, status, sentence):
    stub.status, stub.parts = status, [b'{"error": {"message": "busy"}}']
    assert sentence in error_of(reply, Server(stub.url, "m"))


def test_a_missing_and_a_refused_key_are_told_apart(stub, monkeypatch):
    stub.status = 401
    server = Server(stub.url)
    assert "set the environment variable OPENAI_API_KEY" in error_of(server.check)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert "refused the one in OPENAI_API_KEY" in error_of(server.check)


def test_nobody_there_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "refuses connections" in error_of(Server(f"http://127.0.0.1:{port}/v1").check)
    assert "has no address" in error_of(Server("http://a..b/v1").check)


def test_a_server_without_models_and_a_list_that_is_none_are_told_apart(stub):
    stub.models = []
    assert "has no model" in error_of(Server(stub.url).check)
    stub.models = "nonsense"
    assert "no list of models" in error_of(Server(stub.url).check)


def test_a_redirect_is_not_followed(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with contextlib.closing(Stub()) as elsewhere:
        stub.status, stub.headers = 307, {"Location": elsewhere.url, "Content-Length": "0"}
        assert f"redirects to {elsewhere.url}" in error_of(reply, Server(stub.url, "m"))
        assert not elsewhere.requests


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that nobody has signed but itself."""
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    try:
        subprocess.run([*command, *names], cwd=folder, check=True, capture_output=True)
    except OSError:
        pytest.skip("no openssl here")
    return folder


def over_tls(stub, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    stub.server.socket = context.wrap_socket(stub.server.socket, server_side=True)
    return stub.url.replace("http:", "https:")


def test_over_tls_it_is_the_same_and_the_connection_kept(stub, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    server = Server(over_tls(stub, certificate), "m")
    assert reply(server) == reply(server) == ["Hello", " there."]
    assert len({port for port, *_ in stub.requests}) == 1


def test_a_certificate_that_nobody_trusts_is_one_sentence(stub, certificate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert "is not trusted" in error_of(Server(over_tls(stub, certificate), "m").check)
    assert not stub.requests


def test_tls_where_there_is_none_is_one_sentence(stub):
    assert "TLS" in error_of(Server(stub.url.replace("http:", "https:"), "m").check)


@pytest.mark.parametrize(
    ("status", "parts", "echoed"),
    [
        (401, [b'{"error": {"message": "wrong key %s"}}' % SECRET.encode()], True),
        (500, [b'{"error": "%s"}' % SECRET.encode()], True),
        (200, [b'data: {"error": "%s"}\n\n' % SECRET.encode()], True),
        (401, [], False),
        (200, [None], False),
        (200, [b"data: x\n\n"], False),
    ],
)
def test_the_key_is_in_no_error_repr_or_traceback(stub, monkeypatch, status, parts, echoed):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    stub.status, stub.parts = status, parts
    server = Server(stub.url, "m")
    with pytest.raises(ModelError) as caught:
        reply(server)
    # Not even with the variables of each frame, unless it is what the server said.
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=not echoed).format()
    assert SECRET not in "".join([*told, repr(server), repr(vars(server))])
    assert stub.requests[0][2]["Authorization"] == "Bearer " + SECRET


def test_a_key_that_cannot_be_sent_is_not_shown(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET + "\nX-Header: 1")
    sentence = error_of(reply, Server(stub.url, "m"))
    assert "OPENAI_API_KEY" in sentence and SECRET not in sentence
    assert not stub.requests
