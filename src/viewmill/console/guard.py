"""Who may ask the console: this machine, a page of ours, someone who has the link.

takes  every request
gives  it to the app, with headers that confine the page; or 403, and a line in the log

The link has a token. Who opens it gets a cookie that no script can read and that no other site's
page sends along. A host other than loopback means that a name was pointed at us (DNS rebinding).
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse

_LOG = logging.getLogger("viewmill")

PAGE = "/"
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_OWN_SITE = ("same-origin", "none")  # none: typed, or opened from outside a browser


@dataclass(frozen=True)
class Access:
    """The secrets of one console, and the port that it listens on."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser on this machine calls us."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def link(self) -> str:
        """The address to open, with the token."""
        return f"http://{self.hosts[0]}{PAGE}?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie's name: ports of one machine share their cookies."""
        return f"viewmill_{self.port}"


class Guard:
    """Lets requests through to an app, or refuses them."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Judge one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        is_link = scope["path"] == PAGE and self._has_token(scope)
        why = self._refusal(scope, headers, is_link)
        if why:
            _LOG.warning("the console refused a request: %s", why)
            refusal = PlainTextResponse(f"refused: {why}\n", status_code=403)
            await refusal(scope, receive, self._confined(send))
            return
        await self._app(scope, receive, self._confined(send, sets_cookie=is_link))

    def _refusal(self, scope: Any, headers: Headers, is_link: bool) -> str:
        """Why a request is refused; empty if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._access.hosts:
            return "it was not sent to this machine's loopback address"
        if origin is not None and origin != f"http://{host}":
            return "it comes from a page of another origin"
        site = headers.get("sec-fetch-site", "none")
        if scope["path"] != PAGE and site not in _OWN_SITE:
            return "it comes from a page of another site"
        if is_link or self._has_cookie(headers):
            return ""
        return "it has no token; open the link that the console printed when it was started"

    def _has_token(self, scope: Any) -> bool:
        given = QueryParams(scope["query_string"]).get("token", "")
        return _is_equal(given, self._access.token)

    def _has_cookie(self, headers: Headers) -> bool:
        """Other servers of this machine set cookies too, and not all of them are well formed."""
        found = cookie_parser(headers.get("cookie", "")).get(self._access.cookie, "")
        return _is_equal(found, self._access.session)

    def _confined(self, send: Any, sets_cookie: bool = False) -> Any:
        """Send with the headers that confine the page."""

        async def confined(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if sets_cookie:
                    named = f"{self._access.cookie}={self._access.session}"
                    headers["set-cookie"] = f"{named}; Path=/; HttpOnly; SameSite=Strict"
            await send(message)

        return confined


def _is_equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())
