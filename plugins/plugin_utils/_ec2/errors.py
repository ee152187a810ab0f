# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error answers that do not come from AWS: the HTML page of a proxy or firewall, turned into an error that says so.

botocore takes such a page for an error of AWS without code and message, and does not try again.
"""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

# Services that answer in XML. The event of a service is that of all its calls.
EVENTS = ("before-parse.ec2", "before-parse.sts")
# botocore tries again on this code (botocore.retries.standard, ThrottledRetryableChecker).
THROTTLED = "TooManyRequestsException"
HINTS = {
    407: "the proxy asks for a log-in: put user and password into HTTPS_PROXY, or the endpoint into NO_PROXY",
}
_CODE = re.compile(rb"<Code>[^<]+</Code>")
_TITLE = re.compile(rb"<(?:title|h1)[^>]*>(.*?)</", re.DOTALL | re.IGNORECASE)


def before_parse(response_dict: dict[str, Any], **_kwargs: Any) -> None:
    """Handler of the botocore event ``before-parse``; leaves answers and errors of AWS alone."""
    status, body = response_dict.get("status_code"), response_dict.get("body")
    # botocore itself knows pages with a status of 500 and more, and tries again.
    if not isinstance(status, int) or not 400 <= status < 500 or not isinstance(body, bytes) or _CODE.search(body):
        return
    found = _TITLE.search(body)
    title = f" ({' '.join(found.group(1).decode(errors='replace').split())[:100]})" if found else ""
    message = f"something that is not AWS answered with HTTP {status}{title}"
    if status in HINTS:
        message += f"; {HINTS[status]}"
    code = THROTTLED if status == 429 else f"HTTP{status}"
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    # The form of EC2, which botocore's parser of STS reads too.
    response_dict["body"] = f"<Response><Errors>{error}</Errors></Response>".encode()
