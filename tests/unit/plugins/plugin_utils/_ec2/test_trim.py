# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import record as _ec2_record
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.trim import Trim
from hypothesis import given, settings
from hypothesis import strategies as st

WHOLE = (
    b"<item><architecture>x86_64</architecture><keyName>k</keyName><dnsName>d</dnsName><rootDeviceName>r</rootDeviceName>"
    b"<platformDetails>Linux/UNIX</platformDetails><iamInstanceProfile><arn>a</arn></iamInstanceProfile>"
    b"<groupSet><item><groupId>sg-1</groupId></item></groupSet><blockDeviceMapping/><hypervisor>xen</hypervisor></item>"
)


def interface(kind):
    return (
        "<item><networkInterfaceId>eni-1</networkInterfaceId><groupSet><item><groupId>sg</groupId></item></groupSet>"
        f"<attachment><deviceIndex>0</deviceIndex></attachment><interfaceType>{kind}</interfaceType>"
        "<operator><managed>false</managed></operator></item>"
    )


def instance(tag, kinds=("interface", "efa")):
    return (
        "<instancesSet><item><instanceId>i-1</instanceId><keyName>k</keyName>"
        f"<tagSet><item><key>k</key><value>{escape(tag)}</value></item></tagSet>"
        "<cpuOptions><coreCount>96</coreCount></cpuOptions><groupSet/>"
        f"<networkInterfaceSet>{''.join(map(interface, kinds))}</networkInterfaceSet>"
        "<privateIpAddress>10.0.0.1</privateIpAddress></item></instancesSet>"
    ).encode()


def test_used_elements_stay_and_rest_is_cut():
    root = ElementTree.fromstring(Trim().trim(instance("v")))
    item = root.find("item")
    assert [child.tag for child in item] == [
        "instanceId",
        "tagSet",
        "groupSet",
        "networkInterfaceSet",
        "privateIpAddress",
    ]
    kinds = [one.findtext("interfaceType") for one in item.find("networkInterfaceSet")]
    assert kinds == ["interface", "efa"]
    assert [child.tag for one in item.find("networkInterfaceSet") for child in one] == 2 * ["interfaceType"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))), st.lists(st.sampled_from(["efa", "x"])))
def test_text_is_not_treated_as_element(tag, kinds):
    for text in (tag, f"<cpuOptions>{tag}</cpuOptions>", f"</networkInterfaceSet><keyName>{tag}"):
        root = ElementTree.fromstring(Trim().trim(instance(text, kinds)))
        assert root.findtext("item/tagSet/item/value") == text
        assert len(root.find("item/networkInterfaceSet")) == len(kinds)


def test_interfaces_of_unknown_shape_are_left_to_parser():
    body = b"<networkInterfaceSet><item><networkInterfaceId>eni</networkInterfaceId></item></networkInterfaceSet>"
    assert Trim().trim(body) == body


def test_error_answer_is_left_unchanged():
    answer = {"status_code": 503, "body": b"<reason>slow</reason>"}
    Trim().before_parse(response_dict=answer, operation_model=None)
    assert answer["body"] == b"<reason>slow</reason>"
    answer["status_code"] = 200
    Trim().before_parse(response_dict=answer)
    assert answer["body"] == b""


def test_requested_elements_stay():
    assert [child.tag for child in ElementTree.fromstring(Trim().trim(WHOLE))] == ["blockDeviceMapping"]
    kept = {child.tag for child in ElementTree.fromstring(Trim(_ec2_record.EXTRAS).trim(WHOLE))}
    assert kept == {element.decode() for elements in _ec2_record.EXTRAS.values() for element in elements}
    (only,) = ElementTree.fromstring(Trim(["security_groups"]).trim(WHOLE).replace(b"<blockDeviceMapping/>", b""))
    assert only.findtext("item/groupId") == "sg-1"


TAGGED = (
    b"<item><imageId>ami</imageId><vpcId>vpc</vpcId><tagSet><item><key>Name</key><value>n</value></item>"
    b"<item><key>a&amp;b</key><value/></item><item><key>other</key><value>o</value></item></tagSet></item>"
)


def test_unused_tags_and_fields_are_cut():
    root = ElementTree.fromstring(Trim(unread=["image_id"], tags=["Name", "a&b"]).trim(TAGGED))
    assert [child.tag for child in root] == ["vpcId", "tagSet"]
    assert [item.findtext("key") for item in root.find("tagSet")] == ["Name", "a&b"]
    assert len(ElementTree.fromstring(Trim(tags=[]).trim(TAGGED)).find("tagSet")) == 0
    assert Trim().trim(TAGGED) == TAGGED
