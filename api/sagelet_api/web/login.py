"""The login, if signatures are checked: by the link that `sagelet up` has printed, or by the key pair."""

from typing import TYPE_CHECKING, Any

from sagelet_api.protocol.calls import NEEDS_LOGIN
from sagelet_api.web import LOGIN, PREFIX
from sagelet_api.web.sessions import HOURS
from sagelet_api.web.site import Site, is_static

if TYPE_CHECKING:
    from flask import Blueprint

#: Pages that are shown before the login.
_OPEN = frozenset({"login.form", "login.enter"})


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, redirect, render_template, request
    from werkzeug.exceptions import Unauthorized

    routes = Blueprint("login", __name__)

    @routes.before_app_request
    def check() -> Any:
        if not request.environ.get(NEEDS_LOGIN) or request.endpoint in _OPEN or is_static(request.endpoint):
            return None
        if site.sessions.holds(request.cookies.get(_cookie(), "")):
            return None
        if request.method == "GET" and request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":
            return redirect(LOGIN)
        raise Unauthorized("You are not logged in any more. Load the page again.")

    @routes.get(LOGIN)
    def form() -> Any:
        """Shows the form, or logs in with `?token=` of the link, which works once."""
        token = request.args.get("token")
        if token is None:
            return render_template("login.html")
        session = site.sessions.by_link(token)
        if session is None:
            message = "This link was used already, or is too old. Use the key pair, or start sagelet again."
            return render_template("login.html", message=message), 403
        return _entered(session)

    @routes.post(LOGIN)
    def enter() -> Any:
        session = site.sessions.by_keys(
            request.form.get("access_key", "").strip(), request.form.get("secret", "").strip()
        )
        if session is None:
            return render_template("login.html", message="This is not the key pair of the data directory."), 403
        return _entered(session)

    @routes.post(f"{PREFIX}/logout")
    def leave() -> Any:
        site.sessions.end(request.cookies.get(_cookie(), ""))
        answer = redirect(LOGIN, 303)
        answer.delete_cookie(_cookie(), httponly=True, samesite="Strict")
        return answer

    @routes.app_context_processor
    def login() -> dict[str, bool]:
        return {"logged_in": bool(request.environ.get(NEEDS_LOGIN)) and request.endpoint not in _OPEN}

    return routes


def _entered(session: str) -> Any:
    from flask import redirect, request

    answer = redirect("/", 303)
    answer.set_cookie(
        _cookie(), session, max_age=HOURS * 3600, httponly=True, samesite="Strict", secure=request.is_secure
    )
    return answer


def _cookie() -> str:
    """Returns the cookie's name. A browser sends cookies to every port of a host, so two servers need different
    names.
    """
    from flask import request

    return f"sagelet-{request.host.rpartition(':')[2]}"
