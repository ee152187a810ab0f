# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import charts

CURVE = {
    "label": "nccl_all all_reduce_perf",
    "unit": "GB/s",
    "status": "pass",
    "points": [{"size": 2**20, "busbw": 10.0, "least": None}, {"size": 2**30, "busbw": 400.0, "least": 300.0}],
}


def drawn(text):
    """Return the chart as a tree; every position has to lie inside its parent."""
    root = ElementTree.fromstring(f"<div>{text}</div>")
    for picture in root.iter("svg"):
        width, height = map(float, picture.get("viewBox").split()[2:])
        for mark in picture.iter():
            for name, limit in (("x", width), ("y", height)):
                if mark.get(name) is not None:
                    assert 0 <= float(mark.get(name)) <= limit, ElementTree.tostring(mark)
            for x, y in re.findall(r"[ML](\S+) ([0-9.-]+)", (mark.get("d") or "").replace("L", " L")):
                assert 0 <= float(x) <= width and 0 <= float(y) <= height
    for mark in root.iter():
        for share in re.findall(r"(?:left|width|bottom):([0-9.-]+)%", mark.get("style") or ""):
            assert 0 <= float(share) <= 100, ElementTree.tostring(mark)
    return root


def titles(root):
    return [mark.text for mark in root.iter("title")]


def words(root, tag, name=""):
    return ["".join(mark.itertext()) for mark in root.iter(tag) if mark.get("class", "") == name or not name]


@pytest.mark.parametrize(("count", "shown"), [(0, "0 B"), (1024, "1 KiB"), (2**23, "8 MiB"), (2**44, "16384 GiB")])
def test_sizes_have_binary_units(count, shown):
    assert charts.size_text(count) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (9.999, "10.00"),
        (12.3, "12.3"),
        (123.4, "123"),
        (12345.6, "12,300"),
        (1e6, "1,000,000"),
    ],
)
def test_numbers_have_three_digits(value, shown):
    assert charts.number_text(value) == shown


def test_curves_rise_to_right_and_are_labelled():
    root = drawn(charts.curves([CURVE]))
    line = next(mark for mark in root.iter("path"))
    (x1, y1), (x2, y2) = (map(float, point.split()) for point in line.get("d")[1:].split("L"))
    assert x1 < x2 and y1 > y2
    assert titles(root) == ["nccl_all all_reduce_perf: 400 GB/s at 1 GiB", "lowest bandwidth that passes"]
    assert words(root, "span", "y") == ["0", "100", "200", "300", "400"]
    assert words(root, "span", "x") == ["1 MiB", "8 MiB", "64 MiB", "512 MiB"]


def test_failed_curve_is_marked_and_legend_is_shortened():
    point = CURVE["points"][1]
    lines = [
        {
            **CURVE,
            "label": f"run {at}",
            "status": "fail" if at == 3 else "pass",
            "points": [{**point, "busbw": 100 - at}],
        }
        for at in range(20)
    ]
    root = drawn(charts.curves(lines))
    assert len([mark for mark in root.iter("path") if mark.get("class") == "bad"]) == 1
    named = words(root, "li")
    assert named[1:3] == ["run 3: 97.0 GB/s at 1 GiB, failed", "run 19: 81.0 GB/s at 1 GiB"]
    assert named[-2:] == ["and 12 more runs", "lowest bandwidth that passes"]


@pytest.mark.parametrize("points", [[(0, 0.0)], [(4096, 7.0)], [(1, 0.0), (2, 0.0)], [(4096, -7.0), (8192, 1.0)]])
def test_curve_without_width_or_height_is_drawn(points):
    made = [{"size": size, "busbw": value, "least": None} for size, value in points]
    drawn(charts.curves([{**CURVE, "points": made}]))


def test_heat_map_has_each_pair_twice_and_lists_slowest():
    pairs = [
        {"a": "n1", "b": "n2", "collective": "x", "busbw": 480.0, "status": "pass"},
        {"a": "n2", "b": "n10", "collective": "x", "busbw": 90.0, "status": "fail"},
    ]
    root = drawn(charts.heat_map(pairs))
    assert [mark.get("class") for mark in root.iter("rect")] == ["h5", "h5", "bad", "bad"]
    assert titles(root)[2] == "n2 with n10: 90.0 GB/s, failed"
    assert words(root, "li") == ["n2 with n10: 90.0 GB/s, failed", "n1 with n2: 480 GB/s"]


def test_shades_go_from_lowest_to_highest():
    assert [charts.shade(value, 0, 10) for value in (0, 4.9, 10)] == [0, 2, charts.SHADES - 1]
    assert charts.shade(5, 5, 5) == charts.SHADES - 1


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (5.1e9, "B/s", "5.10 GB/s"),
        (5.1e6, "B/s", "5.10 MB/s"),
        (512, "B/s", "512 B/s"),
        (15000.5, "MiB/s", "14.6 GiB/s"),
        (900, "MiB/s", "900 MiB/s"),
        (3 * 2**30, "B", "3.00 GiB"),
        (42, "kOPS", "42.0 kOPS"),
        (42, None, "42.0"),
    ],
)
def test_figures_have_three_digits_and_readable_unit(value, unit, shown):
    root = drawn(charts.bars([{"label": "n1", "value": value, "status": "pass"}], unit))
    assert words(root, "span", "amount") == [shown]


def test_all_bars_of_chart_have_one_unit():
    rows = [{"label": f"n{at}", "value": at * 4e8, "status": "pass"} for at in (1, 4)]
    assert words(drawn(charts.bars(rows, "B/s")), "span", "amount") == ["0.400 GB/s", "1.60 GB/s"]


def test_bars_show_lowest_first_and_median():
    rows = [{"label": f"n{at}", "value": float(at), "status": "pass"} for at in range(1, 101)]
    root = drawn(charts.bars(rows, "s"))
    assert len(words(root, "div", "bar")) == charts.BARS
    assert words(root, "span", "who")[0] == "n1"
    assert words(root, "p") == ["median 50.5 s, the lowest 40 of 100"]
    # The line of the median lies in the track, beside the figures and not through them.
    assert all(mark.find("em") is not None for mark in root.iter("span") if mark.get("class") == "track")


def test_zero_and_negative_bars_are_drawn():
    drawn(charts.bars([{"label": "n1", "value": 0, "status": "fail"}], "s"))
    root = drawn(charts.bars([{"label": "n1", "value": -4.0, "status": "fail"}], "s"))
    assert words(root, "span", "amount") == ["-4.00 s, failed"]


def test_times_are_in_order_of_roles():
    root = drawn(charts.role_times([{"role": "z", "seconds": 1}, {"role": "<b>", "seconds": 3}]))
    assert words(root, "span", "who") == ["z", "<b>"]
    assert words(root, "span", "amount") == ["1.00 s", "3.00 s"]
    drawn(charts.role_times([{"role": "a", "seconds": 0}]))
