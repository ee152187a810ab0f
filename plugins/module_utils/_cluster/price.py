# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The on-demand price of an instance type by AWS's price list."""

from __future__ import annotations

import json
import typing as t

# Only a few regions serve the price list.
REGION = "us-east-1"
FILTERS = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "operation": "RunInstances",
}


def look(pricing: t.Any, kind: str, region: str) -> dict[str, t.Any]:
    """Return ``dollars`` an hour for plain Linux, None with a ``reason`` unless the list has exactly one price."""
    wanted = {**FILTERS, "instanceType": kind, "regionCode": region}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    answer = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=10)
    found = {price for text in answer.get("PriceList") or () for price in prices(json.loads(text))}
    if len(found) != 1:
        return {"dollars": None, "reason": f"the price list has {len(found) or 'no'} prices of it in {region}"}
    return {"dollars": found.pop(), "reason": ""}


def prices(product: t.Mapping[str, t.Any]) -> set[float]:
    """Return the on-demand prices of a product in dollars an hour."""
    terms = (product.get("terms") or {}).get("OnDemand") or {}
    sizes = [size for term in terms.values() for size in (term.get("priceDimensions") or {}).values()]
    amounts = [size["pricePerUnit"].get("USD") for size in sizes if size.get("unit") == "Hrs"]
    return {float(price) for price in amounts if price is not None and float(price) > 0}
