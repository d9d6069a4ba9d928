"""Only who has the link may ask, from a page of the console itself."""

import logging
import sys
from pathlib import Path

import httpx
import pytest

import viewmill as vm

TCP = Path("/proc/net/tcp")
LOOPBACK = (b"\x7f\0\0\x01" if sys.byteorder == "big" else b"\x01\0\0\x7f").hex().upper()
PATHS = ["/", "/api/mill", "/api/nodes", "/api/live", "/static/main.js", "/nowhere"]


def base(console):
    return console.url.partition("?")[0]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_gets_anything_without_the_token(console, path):
    with httpx.Client(base_url=base(console)) as client:
        assert client.get(path).status_code == 403
        assert client.get(path, params={"token": "x" * 43}).status_code == 403
        assert client.get(path, params={"token": ""}).status_code == 403
        assert client.get(path, headers={"cookie": "viewmill_1=x"}).status_code == 403
        assert "set-cookie" not in client.get(path).headers


def test_the_token_counts_only_where_the_page_is_opened(console):
    token = console.url.partition("token=")[2]
    with httpx.Client(base_url=base(console)) as client:
        assert client.get("/api/mill", params={"token": token}).status_code == 403


def test_the_cookie_is_for_no_script_and_no_other_site_and_is_not_the_token(console):
    with httpx.Client() as client:
        cookie = client.get(console.url).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert console.url.partition("token=")[2] not in cookie


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1", "null", ""]
)
def test_a_page_of_another_origin_is_refused_even_with_the_cookie(shop, client, origin):
    before = shop.version
    for method, path in (("GET", "/api/mill"), ("POST", "/api/sql"), ("GET", "/api/live")):
        answer = client.request(method, path, headers={"origin": origin})
        assert answer.status_code == 403, (method, path)
    assert shop.version == before


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_a_browser_calls_foreign_is_refused(client, site):
    assert client.get("/api/mill", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.x.org"]
)
def test_a_name_that_was_pointed_at_this_machine_is_refused(client, host):
    assert client.get("/api/mill", headers={"host": host}).status_code == 403


def test_the_console_itself_and_localhost_are_let_in(console, client):
    port = client.base_url.port
    own = {"origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
    assert client.get("/api/mill", headers=own).status_code == 200
    local = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
    assert client.get("/api/mill", headers=local).status_code == 200


def test_every_answer_confines_the_page(client):
    for path in ("/", "/api/mill", "/static/main.js", "/nowhere"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.skipif(not TCP.exists(), reason="needs Linux's list of sockets")
def test_it_listens_on_loopback_only(console):
    port = httpx.URL(console.url).port
    assert listening_on(port, TCP) == [LOOPBACK]
    assert listening_on(port, TCP.with_name("tcp6")) == []


def listening_on(port, sockets):
    """The addresses, in hexadecimal, that the kernel says somebody listens on at a port."""
    if not sockets.exists():
        return []
    lines = [each.split() for each in sockets.read_text().splitlines()[1:]]
    own = [each[1].split(":") for each in lines if each[3] == "0A"]
    return [address for address, at in own if int(at, 16) == port]


def test_cookies_of_other_servers_do_not_hide_ours(client):
    name, value = next(iter(client.cookies.items()))
    for other in ('a={"b": [1, 2]}', "@=;;=", "x y z", 'a="b', f"{name}x=1"):
        cookie = {"cookie": f"{other}; {name}={value}"}
        assert client.get("/api/mill", headers=cookie).status_code == 200, other
    assert client.get("/api/mill", headers={"cookie": f"{name}=x{value}"}).status_code == 403


def test_a_refusal_is_logged_without_the_token(console, caplog):
    with caplog.at_level(logging.DEBUG), httpx.Client(base_url=base(console)) as client:
        client.get("/", params={"token": "guessed"})
        client.get(console.url)
    assert any("refused a request" in each.message for each in caplog.records)
    own = [each.getMessage() for each in caplog.records if not each.name.startswith("http")]
    assert not any("guessed" in each or "token=" in each for each in own)


def test_files_outside_of_the_page_are_not_given_out(client):
    for name in ("..%2fapp.py", "%2e%2e/app.py", "%2fetc%2fpasswd", "app.py", "..%5capp.py"):
        assert client.get(f"/static/{name}").status_code == 404


def test_a_request_that_is_not_ours_changes_nothing_and_answers_others_on(shop, client):
    too_large = b'{"sql": "' + b"x" * (2 << 20) + b'"}'
    json = {"content-type": "application/json"}
    for content, headers in (
        (b'{"sql": "SELECT 1"}', {"content-type": "text/plain"}),
        (b"sql=SELECT", {"content-type": "application/x-www-form-urlencoded"}),
        (b"{", json),
        (b"[]", json),
        (b'{"sql": 1}', json),
        (b"\xff", json),
        (too_large, json),
    ):
        assert client.post("/api/sql", content=content, headers=headers).status_code == 400
    assert client.get("/api/nodes", params={"page": "-1"}).status_code == 400
    assert client.get("/api/nodes", params={"page": "9" * 5000}).status_code == 400
    assert client.get("/api/mill").status_code == 200


def test_a_port_that_is_taken_or_none_is_an_error(shop, console):
    with pytest.raises(vm.ViewmillError, match="cannot be used"):
        shop.console(port=httpx.URL(console.url).port)
    with pytest.raises(vm.ViewmillError, match="is no port"):
        shop.console(port=70000)
