# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The price list: one price, none, and several."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import price


class Pricing:
    """Answer with these products, and record the requests."""

    def __init__(self, *prices):
        self.products = [
            json.dumps({"terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": one}}}}}})
            for one in prices
        ]

    def get_products(self, **request):
        self.asked = {entry["Field"]: entry["Value"] for entry in request["Filters"]}
        return {"PriceList": self.products}


def test_single_price_is_returned():
    pricing = Pricing({"USD": "0.0960000000"}, {"USD": "0.0960000000"}, {"USD": "0"}, {"CNY": "1"})
    assert price.look(pricing, "c5d.large", "us-east-1") == {"dollars": 0.096, "reason": ""}
    assert (pricing.asked["instanceType"], pricing.asked["regionCode"]) == ("c5d.large", "us-east-1")
    assert (pricing.asked["tenancy"], pricing.asked["operation"]) == ("Shared", "RunInstances")


@pytest.mark.parametrize(("prices", "count"), [((), "no"), (({"USD": "1"}, {"USD": "2"}), "2")])
def test_no_price_and_several_are_unknown(prices, count):
    found = price.look(Pricing(*prices), "c5d.large", "us-east-1")
    assert found == {"dollars": None, "reason": f"the price list has {count} prices of it in us-east-1"}


def test_price_without_hourly_unit_is_ignored():
    size = {"unit": "Quantity", "pricePerUnit": {"USD": "9"}}
    assert price.prices({"terms": {"OnDemand": {"t": {"priceDimensions": {"d": size}}}}}) == set()
