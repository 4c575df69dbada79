"""What schemathesis has to be told beyond the document: which handlers there are, and what no schema can say."""

import re

import schemathesis

# Headers that say the same as a field of the body.
TWINS = {"Idempotency-Key": "idempotency_key", "traceparent": "traceparent"}
# So long is enough for any task of this run.
TIMEOUT_MS = 60_000
# The longest times that a request may name: `request.delay_max` and `request.timeout_max`.
DELAY_MAX_MS = 30 * 24 * 60 * 60 * 1000
TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000


@schemathesis.hook
def map_body(context, body):
    """Names a handler that there is in every second request, so that tasks are really run."""
    for request in body if isinstance(body, list) else [body]:
        if isinstance(request, dict) and is_name(request.get("handler")) and len(request["handler"]) % 2 == 1:
            request["handler"] = "echo"
            # Only what is right is changed: a wrong value is what the case is about.
            if is_count(request.get("delay_ms"), 0, DELAY_MAX_MS):
                request["delay_ms"] = 0
            if is_count(request.get("timeout_ms"), 1, TIMEOUT_MAX_MS):
                request["timeout_ms"] = TIMEOUT_MS
    return body


@schemathesis.hook
def filter_case(context, case):
    """Leaves out what is refused for a reason that no schema can express."""
    requests = case.body if isinstance(case.body, list) else [case.body]
    return not any(contradicts(case.headers or {}, request) or has_fraction(request) for request in requests)


def is_name(value):
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9_.-]{1,64}", value) is not None


def is_count(value, least, most):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def contradicts(headers, request):
    """A header and a field that may say different things."""
    return isinstance(request, dict) and any(header in headers and field in request for header, field in TWINS.items())


def has_fraction(request):
    """A schema takes 1.0 for a whole number; a request does not."""
    return isinstance(request, dict) and any(isinstance(value, float) for value in request.values())
