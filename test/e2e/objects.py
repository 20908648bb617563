# SPDX-License-Identifier: Apache-2.0
"""What the tests know of Kubernetes objects: label selectors, and JSON and protobuf on the wire.

Deliberately none of the code under test: selectors are evaluated, and protobuf is decoded, here a
second time. Objects are reduced to `Item`, which is all that limits are about.
"""

import collections
import json
import re
import struct

# resource_version is that of the object, or of the event that shows it.
Item = collections.namedtuple("Item", "namespace name labels resource_version")
Event = collections.namedtuple("Event", "type item")

PROTOBUF = "application/vnd.kubernetes.protobuf"
PROTOBUF_WATCH = PROTOBUF + ";stream=watch"

REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<key1>[^\s,=!()]+)"
    r"|(?P<key2>[^\s,=!()]+)\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<key3>[^\s,=!()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s,()]*)"
    r"|(?P<key4>[^\s,=!()]+))\s*(?:,|$)"
)


def parse_selector(text):
    """A function from labels to bool. The text must be well-formed."""
    requirements = []
    at = 0
    while at < len(text):
        match = REQUIREMENT.match(text, at)
        if match is None:
            raise ValueError(f"cannot read the selector {text[at:]!r}")
        requirements.append(requirement(match))
        at = match.end()
    return lambda labels: all(holds(labels) for holds in requirements)


def requirement(match):
    if match["absent"]:
        return lambda labels, key=match["key1"]: key not in labels
    if match["set"]:
        values = {value.strip() for value in match["values"].split(",")}
        if match["set"] == "in":
            return lambda labels, key=match["key2"]: labels.get(key) in values
        return lambda labels, key=match["key2"]: labels.get(key) not in values
    if match["op"]:
        key, value = match["key3"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    return lambda labels, key=match["key4"]: key in labels


# ---- JSON ----


def item_of(thing):
    meta = thing.get("metadata", {})
    return Item(
        meta.get("namespace", ""),
        meta.get("name", ""),
        meta.get("labels") or {},
        meta.get("resourceVersion", ""),
    )


def json_list(body):
    """The items of a list; of a Table those of its rows' objects."""
    document = json.loads(body)
    if document["kind"] == "Table":
        return [item_of(row["object"]) for row in document["rows"] or []]
    if not document["kind"].endswith("List"):
        raise ValueError(f"not a list: {body[:300]!r}")
    return [item_of(thing) for thing in document["items"] or []]


def json_events(data):
    """The events of a watch, and the bytes of the last, incomplete one."""
    *lines, rest = data.split(b"\n")
    events = []
    for line in lines:
        event = json.loads(line)
        thing = event["object"]
        if thing.get("kind") == "Table":
            events += [Event(event["type"], item_of(row["object"])) for row in thing["rows"]]
        else:
            events.append(Event(event["type"], item_of(thing)))
    return events, rest


# ---- protobuf: https://protobuf.dev/programming-guides/encoding/ ----


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message: number -> values in order. Wire types 0, 1, 2 and 5."""
    found = collections.defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            if len(value) != size:
                raise ValueError("a protobuf field is cut off")
        else:
            raise ValueError(f"wire type {kind}")
        found[tag >> 3].append(value)
    return found


def text_of(message, number):
    return message[number][0].decode() if number in message else ""


def unwrap(data):
    """The kind and the bytes of the object inside runtime.Unknown."""
    if data[:4] != b"k8s\0":
        raise ValueError(f"no protobuf object: {data[:40]!r}")
    unknown = fields(data[4:])
    kind = text_of(fields(unknown[1][0]), 2)
    return kind, unknown[2][0]


def protobuf_item(data):
    """Of any object whose first field is its ObjectMeta."""
    meta = fields(fields(data)[1][0])
    labels = {}
    for entry in meta[11]:
        pair = fields(entry)
        labels[text_of(pair, 1)] = text_of(pair, 2)
    return Item(text_of(meta, 3), text_of(meta, 1), labels, text_of(meta, 6))


def protobuf_list(body):
    kind, data = unwrap(body)
    if not kind.endswith("List"):
        raise ValueError(f"not a list but {kind}")
    return [protobuf_item(item) for item in fields(data)[2]]


def protobuf_events(data):
    """As json_events, of 4-byte length-delimited frames."""
    events = []
    while len(data) >= 4:
        (size,) = struct.unpack(">I", data[:4])
        if len(data) < 4 + size:
            break
        event = fields(data[4 : 4 + size])
        _, thing = unwrap(fields(event[2][0])[1][0])
        events.append(Event(text_of(event, 1), protobuf_item(thing)))
        data = data[4 + size :]
    return events, data


def read_list(response):
    """The items of a response, whatever its media type."""
    if response.get("Content-Type", "").startswith(PROTOBUF):
        return protobuf_list(response.body)
    return json_list(response.body)


def list_version(response):
    """The resourceVersion of a list."""
    if response.get("Content-Type", "").startswith(PROTOBUF):
        _, data = unwrap(response.body)
        return text_of(fields(fields(data)[1][0]), 2)
    return json.loads(response.body)["metadata"]["resourceVersion"]
