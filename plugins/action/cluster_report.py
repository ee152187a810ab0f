# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import formats as report_formats
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import html as _report_html
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import markdown as _report_markdown

COLLECTION = Path(__file__).parents[2]


def _reports(document: Mapping[str, Any]) -> list[result.Report]:
    return [
        result.Report(
            host=node["name"],
            time=document["time"],
            versions=node["versions"],
            results=tuple(map(result.Result.from_dict, node["results"])),
        )
        for node in document["nodes"]
    ]


def _of_reports(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda document: report_formats.FORMATS[name](_reports(document))


# File name and renderer of each format.
FILES: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "html": ("report.html", _report_html.page),
    "markdown": ("report.md", _report_markdown.markdown),
    "json": ("report.json", lambda document: json.dumps(document, indent=1, allow_nan=False) + "\n"),
    "junit": ("junit.xml", _of_reports("junit")),
    "prometheus": ("mlcluster.prom", _of_reports("prometheus")),
    "diag": ("diag.json", _of_reports("diag")),
    "nhc": ("nhc.conf", _of_reports("nhc")),
}


class ActionModule(ActionBase):
    """Write the report on the controller, so that the data of hundreds of nodes is not sent to a host."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "nodes": {"type": "list", "elements": "dict", "required": True},
                "directory": {"type": "path", "required": True},
                "cluster": {"type": "str", "default": ""},
                "formats": {
                    "type": "list",
                    "elements": "str",
                    "choices": [*FILES],
                    "default": ["html", "markdown", "json"],
                },
                "validation": {"type": "path"},
                "validation_content": {"type": "str"},
                "validation_source": {"type": "str", "default": ""},
                "validation_days": {"type": "float", "default": _report_model.VALIDATION_DAYS},
                "timings": {"type": "path"},
                "time": {"type": "str"},
            },
            mutually_exclusive=[["validation", "validation_content"]],
        )
        directory = Path(given["directory"])
        validation, warnings = _fetched(given["validation_content"], given["validation_source"])
        now = given["time"] or Host().now()
        try:
            document = _report_model.build(
                given["nodes"],
                now,
                cluster=given["cluster"],
                version=_version(),
                validation=_read(given["validation"], "validation") if given["validation"] else validation,
                source=given["validation"] or (given["validation_source"] if validation else ""),
                validation_days=given["validation_days"],
                run=_read(given["timings"], "timings"),
                previous=_previous(directory / FILES["json"][0]),
            )
        except _report_model.ReportError as exc:
            raise AnsibleActionFail(f"no report was made: {exc}") from exc
        files = {name: directory / FILES[name][0] for name in given["formats"]}
        # All are rendered before the first is written, so that formats of two runs are never mixed.
        texts = {path: FILES[name][1](document) for name, path in files.items()}
        if not self._task.check_mode:
            for path, text in texts.items():
                _write(path, text)
        answer.update(
            changed=False,
            files={name: str(path) for name, path in files.items()},
            lines=_report_markdown.lines(document),
            warnings=warnings,
            **{key: document[key] for key in ("status", "exit_code", "counts", "problems", "outliers", "changes")},
        )
        return answer


def _version() -> str:
    """Return the collection's version, from the archive's manifest or from galaxy.yml in a checkout."""
    try:
        manifest = json.loads((COLLECTION / "MANIFEST.json").read_text(encoding="utf-8"))
        return str(manifest["collection_info"]["version"])
    except FileNotFoundError:
        return str(yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def _read(path: str | None, what: str) -> Any:
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise AnsibleActionFail(
            f"no report was made: {what} {path} cannot be read ({exc}); use the JSON that was kept, or leave it out"
        ) from exc


def _fetched(content: str | None, source: str) -> tuple[Any, list[str]]:
    """Return the document fetched from a node, or why it is left out: an optional file must not stop the report."""
    if not content:
        return None, []
    try:
        found = json.loads(base64.b64decode(content, validate=True))
        # Read as for the page, which is the strictest reader.
        _report_model.build([], "2026-01-31T12:00:00Z", validation=found)
    except (ValueError, RecursionError) as exc:
        return None, [f"the report is made without {source or 'the validation'}, which cannot be read: {to_text(exc)}"]
    return found, []


def _previous(path: Path) -> Any:
    """Return the previous report, None if it cannot be compared, which must not stop the new one."""
    # A pipe of that name could be in a directory that others write to, and reading it would never end.
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == _report_model.SCHEMA else None


def _write(path: Path, text: str) -> None:
    """Replace a file atomically; it is readable by its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, text.encode(errors="replace"), 0o600)
    except OSError as exc:
        raise AnsibleActionFail(
            f"the report cannot be written to {path} ({to_text(exc.strerror)}); choose another directory"
        ) from exc
