# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import svg

CURVE = {
    "label": "nccl_all all_reduce_perf",
    "unit": "GB/s",
    "status": "pass",
    "points": [{"size": 2**20, "busbw": 10.0, "least": None}, {"size": 2**30, "busbw": 400.0, "least": 300.0}],
}


def drawn(text):
    """The picture, and all numbers of its coordinates, which have to lie inside it."""
    root = ElementTree.fromstring(text)
    width, height = map(float, root.get("viewBox").split()[2:])
    for mark in root.iter():
        for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            if mark.get(name) is not None:
                assert 0 <= float(mark.get(name)) <= limit, ElementTree.tostring(mark)
        for point in (mark.get("points") or "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width and 0 <= y <= height
    return root


def titles(root):
    return [mark.text for mark in root.iter("title")]


@pytest.mark.parametrize(("count", "said"), [(0, "0 B"), (1024, "1 KiB"), (2**23, "8 MiB"), (2**44, "16384 GiB")])
def test_sizes(count, said):
    assert svg.size_text(count) == said


@pytest.mark.parametrize(
    ("value", "said"),
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
def test_numbers(value, said):
    assert svg.number_text(value) == said


def test_curves_rise_to_the_right_and_say_what_they_are():
    root = drawn(svg.curves([CURVE]))
    line = next(mark for mark in root.iter("polyline"))
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.get("points").split())
    assert x1 < x2 and y1 > y2
    assert titles(root) == ["nccl_all all_reduce_perf: 400 GB/s at 1 GiB", "the least that passes"]


def test_a_failed_curve_is_marked_and_many_have_no_legend():
    lines = [{**CURVE, "label": f"run {at}", "status": "fail" if at == 3 else "pass"} for at in range(20)]
    root = drawn(svg.curves(lines))
    assert len([mark for mark in root.iter("g") if mark.get("class") == "line bad"]) == 1
    assert not list(root.iter("circle"))


@pytest.mark.parametrize("points", [[(0, 0.0)], [(4096, 7.0)], [(1, 0.0), (2, 0.0)]])
def test_a_curve_without_width_or_height_is_still_drawn(points):
    made = [{"size": size, "busbw": value, "least": None} for size, value in points]
    drawn(svg.curves([{**CURVE, "points": made}]))


def test_the_map_of_pairs_has_each_pair_twice():
    pairs = [
        {"a": "n1", "b": "n2", "collective": "x", "busbw": 480.0, "status": "pass"},
        {"a": "n2", "b": "n10", "collective": "x", "busbw": 90.0, "status": "fail"},
    ]
    root = drawn(svg.heat_map(pairs))
    assert [mark.get("class") for mark in root.iter("rect")] == ["h5", "h5", "bad", "bad"]
    assert titles(root)[2] == "n2 with n10: 90.0 GB/s, fail"


def test_shades_go_from_the_lowest_to_the_highest():
    assert [svg.shade(value, 0, 10) for value in (0, 4.9, 10)] == [0, 2, svg.SHADES - 1]
    assert svg.shade(5, 5, 5) == svg.SHADES - 1


def test_bars_show_the_lowest_first_and_the_median():
    rows = [{"label": f"n{at}", "value": float(at), "status": "pass"} for at in range(1, 101)]
    root = drawn(svg.bars(rows))
    assert len(list(root.iter("rect"))) == svg.BARS
    texts = [mark.text for mark in root.iter("text")]
    assert (texts[0], texts[-1]) == ("n1", "median 50.5, the lowest 40 of 100")


def test_bars_of_nothing_but_zero():
    drawn(svg.bars([{"label": "n1", "value": 0, "status": "fail"}]))


def test_the_bar_of_time_is_full():
    root = drawn(svg.time_bar([{"role": "a", "seconds": 1}, {"role": "<b>", "seconds": 3}]))
    widths = [float(mark.get("width")) for mark in root.iter("rect")]
    assert sum(widths) == pytest.approx(svg.WIDTH, abs=3)
    assert titles(root) == ["a: 1.00 s", "<b>: 3.00 s"]
    drawn(svg.time_bar([{"role": "a", "seconds": 0}]))
