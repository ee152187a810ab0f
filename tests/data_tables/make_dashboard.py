# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the Grafana dashboard from ``dashboard_panels.py`` with grafana-foundation-sdk: ``make dashboard``."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from tests.data_tables.dashboard_panels import ROWS, VARIABLES, Panel

TARGET = CHECKOUT / "playbooks/files/monitoring/mlcluster.dashboard.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = {"stat": 4, "table": 9, "graph": 8}
# Columns of a table without information.
HIDDEN = ("Time", "Value", "__name__", "job", "number")


def build_panel(panel: Panel):
    """Return the builder of one panel."""
    builder = {"stat": stat.Panel, "table": table.Panel, "graph": timeseries.Panel}[panel.kind]()
    builder = builder.title(panel.title).description(panel.text).datasource(SOURCE).unit(panel.unit)
    builder = builder.span(panel.width).height(HEIGHT[panel.kind])
    for index, query in enumerate(panel.queries):
        asked = prometheus.Dataquery().expr(query.expr).ref_id(chr(ord("A") + index)).legend_format(query.legend)
        asked = asked.range() if panel.kind == "graph" else asked.instant()
        builder = builder.with_target(asked.format(PromQueryFormat.TABLE) if panel.kind == "table" else asked)
    if panel.kind == "table":
        excluded = dict.fromkeys(HIDDEN, True)
        builder = builder.with_transformation(
            DataTransformerConfig(id_val="organize", options={"excludeByName": excluded})
        )
    if panel.kind == "stat":
        builder = builder.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    if panel.red is not None:
        steps = [Threshold(value=None, color="green"), Threshold(value=panel.red, color="red")]
        builder = builder.thresholds(boards.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    return builder


def build() -> str:
    """Return the JSON of the dashboard."""
    board = (
        boards.Dashboard("mlcluster.aws")
        .uid("mlcluster-aws")
        .tags(["mlcluster"])
        .refresh("1m")
        .time("now-6h", "now")
        .with_variable(boards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for name, query in VARIABLES.items():
        variable = boards.QueryVariable(name).datasource(SOURCE).query(query).multi(True).include_all(True)
        board = board.with_variable(variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED))
    for title, panels in ROWS.items():
        board = board.with_row(boards.Row(title))
        for panel in panels:
            board = board.with_panel(build_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


def main() -> int:
    """Write the file; returns the exit status."""
    TARGET.write_text(build(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
