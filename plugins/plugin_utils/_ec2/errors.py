# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn error answers that are not from AWS, such as a proxy's HTML page, into an error that names the cause.

botocore treats such a page as an AWS error without code and message, and does not retry.
"""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

# Services that answer in XML. The event of a service covers all its calls.
EVENTS = ("before-parse.ec2", "before-parse.sts")
# botocore retries on this code (botocore.retries.standard, ThrottledRetryableChecker).
THROTTLED = "TooManyRequestsException"
HINTS = {
    407: "the proxy asks for a log-in: put user and password into HTTPS_PROXY, or the endpoint into NO_PROXY",
}
_CODE = re.compile(rb"<Code>[^<]+</Code>")
_TITLE = re.compile(rb"<(?:title|h1)[^>]*>(.*?)</", re.DOTALL | re.IGNORECASE)


def before_parse(response_dict: dict[str, Any], **_kwargs: Any) -> None:
    """Handle the botocore event ``before-parse``; keeps answers and errors of AWS unchanged."""
    status, body = response_dict.get("status_code"), response_dict.get("body")
    # botocore itself retries on a status of 500 and more.
    if not isinstance(status, int) or not 400 <= status < 500 or not isinstance(body, bytes) or _CODE.search(body):
        return
    found = _TITLE.search(body)
    title = f" ({' '.join(found.group(1).decode(errors='replace').split())[:100]})" if found else ""
    message = f"something that is not AWS answered with HTTP {status}{title}"
    if status in HINTS:
        message += f"; {HINTS[status]}"
    code = THROTTLED if status == 429 else f"HTTP{status}"
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    # The format of EC2, which botocore's STS parser reads as well.
    response_dict["body"] = f"<Response><Errors>{error}</Errors></Response>".encode()
