"""`/healthz`, `/livez` and `/readyz`: the server answers, so it is healthy; each check can be asked for alone."""

from steelyard_local_kubernetes.apiserver.messages import Request, Response

HEALTH = ("healthz", "readyz", "livez")
PLAIN = "text/plain; charset=utf-8"
_CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")
_OF_READINESS = ("informer-sync", "shutdown")


def health_response(request: Request, root: str, check: str) -> Response:
    checks = (*_CHECKS, *(_OF_READINESS if root == "readyz" else ()))
    if check:
        return Response(b"ok", content_type=PLAIN) if check in checks else not_a_page()
    if "verbose" not in request.query:
        return Response(b"ok", content_type=PLAIN)
    lines = "".join(f"[+]{name} ok\n" for name in checks)
    return Response(f"{lines}{root} check passed\n".encode(), content_type=PLAIN)


def not_a_page() -> Response:
    """The answer of Go's own HTTP server to a path of none of its handlers."""
    return Response(b"404 page not found\n", 404, content_type=PLAIN)
