# SPDX-License-Identifier: Apache-2.0
"""ShardingConfigs as people write them, right and wrong.

The documents are those of the projects that the API comes from. Each row of TABLE is the first of
them with one place replaced, and says what `manager compile` answers and what becomes of it when
kubectl creates it on an API server with our definition and our webhook: one of the following, or
several where versions differ.
"""


# What becomes of it on the API server.
TAKEN = "taken"  # it means what it means to `manager compile`
CLIENT = "client"  # kubectl does not send it
SCHEMA = "schema"  # the definition refuses it
WEBHOOK = "webhook"  # the manager refuses it
LOST = "lost"  # it is taken, but what is wrong with it is dropped: by kubectl, which reads YAML
# less strictly, or by the API server, unless kubectl validates as it usually does

DOCUMENT = """\
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata:
  name: sharding-demo
  namespace: operator-demo
spec:
  controller:
    leaderElectionName: operator-leader
  webhook:
    certDir: /tmp/webhook-certs
    port: 9443
  limits:
  - relateResources:
    - apiGroups:
      - '*'
      resources:
      - pods
      - services
    selector:
      matchExpressions:
      - key: ctrlmesh.kusionstack.io/namespace
        operator: In
        values:
        - ns-a
        - ns-b
      matchLabels:
        app: foo
  selector:
    matchExpressions:
    - key: statefulset.kubernetes.io/pod-name
      operator: In
      values:
      - operator-demo-0
"""

# The same where a comment stands in place of the labels.
COMMENTED = DOCUMENT.replace("        app: foo\n", "      # ...\n")

# Kridge's, with the group of the other.
WRAPPED = """\
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata:
  name: sharding-demo
  namespace: operator-demo
spec:
  controller:
    leaderElectionName: operator-leader
  webhook:
    certDir: /tmp/webhook-certs
    port: 9443
  limits:
    - objectSelector:
        relateResources:
          - apiGroups:
              - '*'
            resources:
              - pods
              - services
        selector:
          matchExpressions:
            - key: kridge.kusionstack.io/namespace
              operator: In
              values:
                - ns-a
                - ns-b
          matchLabels:
          # ...
  selector:
    matchExpressions:
      - key: statefulset.kubernetes.io/pod-name
        operator: In
        values:
          - operator-demo-0
"""
KRIDGE = WRAPPED.replace("ctrlmesh.kusionstack.io/v1alpha1", "kridge.kusionstack.io/v1alpha1")

# As it comes out of a web page that lost its indentation.
FLAT = "\n".join(line.strip() for line in DOCUMENT.splitlines()) + "\n"


def between(begin, end):
    """That part of the document: lines."""
    return DOCUMENT[DOCUMENT.index(begin) : DOCUMENT.index(end)]


PODS = "  selector:\n    matchExpressions:\n    - key"  # begins what selects the pods

# What is replaced, and by what.
PLACES = {
    "apiVersion": ("ctrlmesh.kusionstack.io/v1alpha1", "{}"),
    "name": ("name: sharding-demo", "name: {}"),
    "namespace": ("namespace: operator-demo", "namespace: {}"),
    "spec": (DOCUMENT[DOCUMENT.index("spec:") :], "spec: {}\n"),
    "controller": (between("  controller", "  webhook"), "  controller: {}\n"),
    "lock": ("operator-leader", "{}"),
    "webhook": (between("  webhook", "  limits"), "  webhook: {}\n"),
    "certDir": ("/tmp/webhook-certs", "{}"),
    "port": ("9443", "{}"),
    "root": (between("  controller", "  webhook"), "  root: {}\n"),
    "limits": (between("  limits", PODS), "  limits: {}\n"),
    "resources": (between("  - relate", "    selector:"), "  - relateResources: {}\n"),
    "limit selector": (between("    selector:", PODS), "    selector: {}\n"),
    "requirement": (between("      - key: ctrl", "      matchLabels"), "      - {}\n"),
    "set value": ("- ns-a", "- {}"),
    "label key": ("app: foo", "{}: foo"),
    "label value": ("app: foo", "app: {}"),
    "selector": (DOCUMENT[DOCUMENT.index(PODS) :], "  selector: {}\n"),
}


def text_of(place, new):
    """The document of a row. `edit` replaces any text, `document` all."""
    if place == "document":
        return new
    old, template = (new[0], "{}") if place == "edit" else PLACES[place]
    assert old in DOCUMENT, old
    return DOCUMENT.replace(old, template.replace("{}", new[1] if place == "edit" else new), 1)


# Where the webhook refuses something else: another check comes first.
SAID_OTHERWISE = (
    ("edit", ("  webhook:", "  controller:")),
    ("name", "a" * 242),
    ("root", "{prefix: a, targetStatefulSet: b}"),
    ("label value", '"a\\nb"'),  # `manager compile` shows a control character as ?
)

# Place, what stands there, how the answer of `manager compile` begins (line, field, why; "": it is
# taken), and what becomes of it on the API server.
TABLE = (
    ("document", DOCUMENT, "", TAKEN),
    ("document", COMMENTED, "", TAKEN),
    ("document", WRAPPED, "", TAKEN),
    ("document", KRIDGE, "", CLIENT),
    ("document", FLAT, '30: duplicate key "matchExpressions" in the mapping at line 1', SCHEMA),
    (
        "edit",
        ("  controller:", "\tcontroller:"),
        "7: column 1: found character that cannot start any token while scanning for the next tok",
        CLIENT,
    ),
    (
        "edit",
        ("        - ns-a\n", "\t\t- ns-a\n"),
        "24: column 1: found character that cannot start any token while scanning for the next to",
        CLIENT,
    ),
    (
        "edit",
        ("spec:\n", "spec\n"),
        "7: column 13: could not find expected ':' while scanning a simple key",
        CLIENT,
    ),
    (
        "edit",
        ("'*'", "'*"),
        "34: column 1: found unexpected end of stream while scanning a quoted scalar",
        CLIENT,
    ),
    (
        "edit",
        ("- ns-a", "- [ns-a"),
        "26: column 18: did not find expected ',' or ']' while parsing a flow sequence",
        CLIENT,
    ),
    (
        "edit",
        ("  webhook:", "  controller:"),
        '10: duplicate key "controller" in the mapping at line 7',
        WEBHOOK,  # what the second one holds is no field of the first
    ),
    (
        "edit",
        ("        app: foo", "        app: foo\n        app: bar"),
        '28: duplicate key "app" in the mapping at line 27',
        LOST,
    ),
    (
        "edit",
        ("- ns-b", "- *nope"),
        "25: column 11: alias of an anchor that is not defined before it",
        CLIENT,
    ),
    (
        "edit",
        ("        app: foo", "        <<: {a: b}\n        app: foo"),
        "27: column 9: merge keys (<<) are not supported; write the fields out",
        LOST,
    ),
    (
        "label value",
        "!secret foo",
        "27: column 14: the tag is not supported or does not match its value",
        LOST,
    ),
    (
        "label value",
        "!!binary Zm9v",
        "27: column 14: the tag is not supported or does not match its value",
        LOST,
    ),
    ("label value", "!!str 5", "", TAKEN),
    (
        "label value",
        "[[]]",
        "27: spec.limits[0].selector.matchLabels[app]: Invalid value: must be a string",
        SCHEMA,
    ),
    ("label value", "f\x00o", "27: byte 535: control characters are not allowed", CLIENT),
    ("label value", "\x1b[31m", "27: byte 534: control characters are not allowed", CLIENT),
    ("label value", "1", "27: spec.limits[0].selector.matchLabels[app]: Invalid value:", SCHEMA),
    (
        "label value",
        "true",
        "27: spec.limits[0].selector.matchLabels[app]: Invalid value: must be a string",
        SCHEMA,
    ),
    ("label value", "yes", "27: spec.limits[0].selector.matchLabels[app]: Invalid valu", SCHEMA),
    ("label value", "y", "27: spec.limits[0].selector.matchLabels[app]: Invalid value:", SCHEMA),
    ("label value", "on", "27: spec.limits[0].selector.matchLabels[app]: Invalid value", SCHEMA),
    ("label value", "~", "27: spec.limits[0].selector.matchLabels[app]: Invalid value", WEBHOOK),
    (
        "label value",
        "null",
        "27: spec.limits[0].selector.matchLabels[app]: Invalid value: must be a string",
        WEBHOOK,
    ),
    ("label value", '""', "", TAKEN),
    ("label value", "2024-01-01", "", TAKEN),
    ("label value", "1e3", "27: spec.limits[0].selector.matchLabels[app]: Invalid valu", SCHEMA),
    (
        "label value",
        "0x1F",
        "27: spec.limits[0].selector.matchLabels[app]: Invalid value: must be a string",
        SCHEMA,
    ),
    ("label value", "012", "27: spec.limits[0].selector.matchLabels[app]: Invalid valu", SCHEMA),
    (
        "label value",
        "1_000",
        "27: spec.limits[0].selector.matchLabels[app]: Invalid value: must be a string",
        SCHEMA,
    ),
    ("label value", ".5", "27: spec.limits[0].selector.matchLabels[app]: Invalid value", SCHEMA),
    (
        "label value",
        ".inf",
        "27: column 14: infinity and NaN cannot be represented in JSON",
        CLIENT,
    ),
    (
        "label value",
        "foo bar",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "foo bar": must be an empty stri',
        WEBHOOK,
    ),
    (
        "label value",
        "-foo",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "-foo": must be an empty string ',
        WEBHOOK,
    ),
    (
        "label value",
        "foo-",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "foo-": must be an empty string ',
        WEBHOOK,
    ),
    (
        "label value",
        "a" * 64,
        '27: spec.limits[0].selector.matchLabels: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
        WEBHOOK,
    ),
    (
        "label value",
        '"a\\nb"',
        '27: spec.limits[0].selector.matchLabels: Invalid value: "a?b": must be an empty string o',
        WEBHOOK,
    ),
    ("label value", "é", '27: spec.limits[0].selector.matchLabels: Invalid value: "é"', WEBHOOK),
    ("label key", "1", "", TAKEN),
    ("label key", "on", "", TAKEN),
    (
        "label key",
        '"a b"',
        '27: spec.limits[0].selector.matchLabels: Invalid value: "a b": name part must consist of',
        WEBHOOK,
    ),
    (
        "label key",
        "a/b/c",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "a/b/c": name part must consist ',
        WEBHOOK,
    ),
    ("label key", "/x", '27: spec.limits[0].selector.matchLabels: Invalid value: "/x"', WEBHOOK),
    ("label key", "x/", '27: spec.limits[0].selector.matchLabels: Invalid value: "x/"', WEBHOOK),
    ("label key", '"UPPER"', "", TAKEN),
    (
        "label key",
        "UPPER.io/x",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "UPPER.io/x": prefix part must b',
        WEBHOOK,
    ),
    ("label key", "-a", '27: spec.limits[0].selector.matchLabels: Invalid value: "-a"', WEBHOOK),
    (
        "label key",
        "a" * 64,
        '27: spec.limits[0].selector.matchLabels: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
        WEBHOOK,
    ),
    (
        "label key",
        "x" * 254 + "/a",
        '27: spec.limits[0].selector.matchLabels: Invalid value: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',
        WEBHOOK,
    ),
    ("label key", "é", '27: spec.limits[0].selector.matchLabels: Invalid value: "é": ', WEBHOOK),
    ("label key", '""', '27: spec.limits[0].selector.matchLabels: Invalid value: "": ', WEBHOOK),
    ("label key", "~", "27: column 9: an empty key", CLIENT),
    ("set value", "1", "24: spec.limits[0].selector.matchExpressions[0].values[0]: Inv", SCHEMA),
    ("set value", "true", "24: spec.limits[0].selector.matchExpressions[0].values[0]: ", SCHEMA),
    ("set value", "~", "24: spec.limits[0].selector.matchExpressions[0].values[0]: In", WEBHOOK),
    ("set value", '""', "", TAKEN),
    ("set value", "ns_a", "", TAKEN),
    ("set value", "-x", "24: spec.limits[0].selector.matchExpressions[0].values[0]: I", WEBHOOK),
    ("set value", "a b", "24: spec.limits[0].selector.matchExpressions[0].values[0]: ", WEBHOOK),
    (
        "set value",
        "a" * 64,
        '24: spec.limits[0].selector.matchExpressions[0].values[0]: Invalid value: "aaaaaaaaaaaaa',
        WEBHOOK,
    ),
    (
        "apiVersion",
        "ctrlmesh.kusionstack.io/v1",
        '1: apiVersion: Unsupported value: "ctrlmesh.kusionstack.io/v1": supported values: "ct',
        CLIENT,
    ),
    (
        "apiVersion",
        "v1alpha1",
        '1: apiVersion: Unsupported value: "v1alpha1": supported values: "ctrlmesh.kusionst',
        CLIENT,
    ),
    (
        "apiVersion",
        "kusionstack.io/v1alpha1",
        '1: apiVersion: Unsupported value: "kusionstack.io/v1alpha1": supported values: "ctrlmesh',
        CLIENT,
    ),
    ("apiVersion", "~", "1: apiVersion: Required value", CLIENT),
    ("apiVersion", "1", "1: apiVersion: Invalid value: must be a string", CLIENT),
    (
        "edit",
        ("apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n", ""),
        "1: apiVersion: Required value",
        CLIENT,
    ),
    (
        "edit",
        ("kind: ShardingConfig\n", ""),
        "manager: there is no ShardingConfig in the input",
        CLIENT,
    ),
    (
        "edit",
        ("ShardingConfig", "shardingconfig"),
        "manager: there is no ShardingConfig in the input",
        (CLIENT, SCHEMA),  # who refuses it depends on kubectl's version
    ),
    (
        "edit",
        ("ShardingConfig", "5"),
        "manager: there is no ShardingConfig in the input",
        CLIENT,
    ),
    ("edit", ("  name: sharding-demo\n", ""), "4: metadata.name: Required value", SCHEMA),
    (
        "edit",
        ("  name: sharding-demo", "  generateName: sharding-"),
        "4: metadata.name: Required value",
        LOST,
    ),
    (
        "edit",
        ("metadata:\n  name: sharding-demo\n  namespace: operator-demo\n", "metadata: [a]\n"),
        "3: metadata: Invalid value: must be an object",
        CLIENT,
    ),
    (
        "edit",
        ("metadata:\n  name: sharding-demo\n  namespace: operator-demo\n", ""),
        "1: metadata: Required value",
        SCHEMA,
    ),
    ("name", "Sharding", '4: metadata.name: Invalid value: "Sharding": must consist of', SCHEMA),
    ("name", "a_b", '4: metadata.name: Invalid value: "a_b": must consist of lower cas', SCHEMA),
    ("name", "5", "4: metadata.name: Invalid value: must be a string", CLIENT),
    ("name", "~", "4: metadata.name: Required value", SCHEMA),
    ("name", "a..b", '4: metadata.name: Invalid value: "a..b": must consist of lower c', SCHEMA),
    ("name", "-a", '4: metadata.name: Invalid value: "-a": must consist of lower case ', SCHEMA),
    ("name", "a" * 254, '4: metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaa', SCHEMA),
    ("name", "a" * 242, '8: spec.controller.leaderElectionName: Invalid value: with "', WEBHOOK),
    ("namespace", "Demo", '5: metadata.namespace: Invalid value: "Demo": must consist ', CLIENT),
    ("namespace", "a.b", '5: metadata.namespace: Invalid value: "a.b": must consist of', CLIENT),
    ("namespace", "5", "5: metadata.namespace: Invalid value: must be a string", CLIENT),
    (
        "namespace",
        "a" * 64,
        '5: metadata.namespace: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
        CLIENT,
    ),
    ("spec", "", "6: spec: Required value", SCHEMA),
    ("spec", "[]", "6: spec: Invalid value: must be an object", SCHEMA),
    ("spec", "x", "6: spec: Invalid value: must be an object", SCHEMA),
    ("spec", "{}", "6: spec.selector: Required value: selects the pods of the shard", WEBHOOK),
    (
        "edit",
        ("  limits:", "  limit:"),
        '13: spec.limit: Forbidden: unknown field; is "limits" meant?',
        WEBHOOK,
    ),
    (
        "edit",
        ("  - relateResources", "  - relatedResources"),
        "14: spec.limits[0].relatedResources: Forbidden: unknown field",
        WEBHOOK,
    ),
    (
        "edit",
        ("      matchLabels", "      matchLabel"),
        "27: spec.limits[0].selector.matchLabel: Forbidden: unknown field",
        WEBHOOK,
    ),
    (
        "edit",
        ("      resources:", "      resource:"),
        "17: spec.limits[0].relateResources[0].resource: Forbidden: unknown field",
        SCHEMA,
    ),
    (
        "edit",
        ("        operator", "        op"),
        "22: spec.limits[0].selector.matchExpressions[0].op: Forbidden: unknown field",
        SCHEMA,
    ),
    (
        "edit",
        ("    port", "    ports"),
        '11: spec.webhook.ports: Forbidden: unknown field; is "port" meant?',
        WEBHOOK,
    ),
    (
        "edit",
        ("    leaderElectionName", "    leaderElection"),
        "8: spec.controller.leaderElection: Forbidden: unknown field",
        WEBHOOK,
    ),
    (
        "edit",
        ("    certDir", "    certdir"),
        "10: spec.webhook.certdir: Forbidden: unknown field",
        WEBHOOK,
    ),
    (
        "edit",
        ("    selector:\n      match", "    selectors:\n      match"),
        "20: spec.limits[0].selectors: Forbidden: unknown field",
        WEBHOOK,
    ),
    ("selector", "~", "28: spec.selector: Required value: selects the pods of the shard", WEBHOOK),
    ("selector", "{}", "28: spec.selector: Required value: an empty selector would ma", WEBHOOK),
    ("selector", "app=demo", "28: spec.selector: Invalid value: must be an object", SCHEMA),
    ("selector", "[a]", "28: spec.selector: Invalid value: must be an object", SCHEMA),
    (
        "selector",
        "{matchLabels: {}}",
        "28: spec.selector: Required value: an empty selector would make every pod of the namespa",
        WEBHOOK,
    ),
    (
        "selector",
        "{matchLabels: [a]}",
        "28: spec.selector.matchLabels: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "selector",
        "{matchLabels: a}",
        "28: spec.selector.matchLabels: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "selector",
        "{matchExpressions: {}}",
        "28: spec.selector.matchExpressions: Invalid value: must be an array",
        SCHEMA,
    ),
    (
        "selector",
        "{matchExpressions: [a]}",
        "28: spec.selector.matchExpressions[0]: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "selector",
        "{matchExpressions: [~]}",
        "28: spec.selector.matchExpressions[0]: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "requirement",
        "{key: a, operator: in, values: [b]}",
        '21: spec.limits[0].selector.matchExpressions[0].operator: Unsupported value: "in": suppor',
        SCHEMA,
    ),
    (
        "requirement",
        "{key: a, operator: Equals, values: [b]}",
        '21: spec.limits[0].selector.matchExpressions[0].operator: Unsupported value: "Equals": su',
        SCHEMA,
    ),
    (
        "requirement",
        '{key: a, operator: Gt, values: ["1"]}',
        '21: spec.limits[0].selector.matchExpressions[0].operator: Unsupported value: "Gt": suppor',
        SCHEMA,
    ),
    (
        "requirement",
        "{operator: Exists}",
        "21: spec.limits[0].selector.matchExpressions[0].key: Required value",
        SCHEMA,
    ),
    (
        "requirement",
        "{key: a}",
        "21: spec.limits[0].selector.matchExpressions[0].operator: Required value",
        SCHEMA,
    ),
    (
        "requirement",
        "{key: a, operator: ~}",
        "21: spec.limits[0].selector.matchExpressions[0].operator: Required value",
        SCHEMA,
    ),
    (
        "requirement",
        "{key: 5, operator: Exists}",
        "21: spec.limits[0].selector.matchExpressions[0].key: Invalid value: must be a string",
        SCHEMA,
    ),
    (
        "requirement",
        '{key: "", operator: Exists}',
        '21: spec.limits[0].selector.matchExpressions[0].key: Invalid value: "": name part must c',
        (SCHEMA, WEBHOOK),  # later API servers take it for a value, where one is required
    ),
    (
        "requirement",
        "{key: a b, operator: Exists}",
        '21: spec.limits[0].selector.matchExpressions[0].key: Invalid value: "a b": name part mus',
        WEBHOOK,
    ),
    (
        "requirement",
        "{key: a, operator: In}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Required value: must be specifie",
        WEBHOOK,
    ),
    ("requirement", "{key: a, operator: In, values: []}", "", TAKEN),
    (
        "requirement",
        "{key: a, operator: In, values: ~}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Required value: must be specifie",
        WEBHOOK,
    ),
    (
        "requirement",
        "{key: a, operator: In, values: b}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Invalid value: must be an array",
        SCHEMA,
    ),
    ("requirement", "{key: a, operator: In, values: [b, b]}", "", TAKEN),
    (
        "requirement",
        "{key: a, operator: In, values: [[b]]}",
        "21: spec.limits[0].selector.matchExpressions[0].values[0]: Invalid value: must be a stri",
        SCHEMA,
    ),
    (
        "requirement",
        "{key: a, operator: NotIn}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Required value: must be specifie",
        WEBHOOK,
    ),
    (
        "requirement",
        "{key: a, operator: NotIn, values: []}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Required value: must be specifie",
        WEBHOOK,
    ),
    (
        "requirement",
        "{key: a, operator: Exists, values: [b]}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Forbidden: may not be specified ",
        WEBHOOK,
    ),
    (
        "requirement",
        "{key: a, operator: DoesNotExist, values: [b]}",
        "21: spec.limits[0].selector.matchExpressions[0].values: Forbidden: may not be specified ",
        WEBHOOK,
    ),
    ("requirement", "{key: a, operator: DoesNotExist, values: []}", "", TAKEN),
    (
        "requirement",
        "{key: a, operator: Exists, extra: 1}",
        "21: spec.limits[0].selector.matchExpressions[0].extra: Forbidden: unknown field",
        WEBHOOK,
    ),
    ("limits", "[]", "", TAKEN),
    ("limits", "~", "", TAKEN),
    ("limits", "{}", "12: spec.limits: Invalid value: must be an array", SCHEMA),
    ("limits", "pods", "12: spec.limits: Invalid value: must be an array", SCHEMA),
    ("limits", "[pods]", "12: spec.limits[0]: Invalid value: must be an object", SCHEMA),
    ("limits", "[{}]", "12: spec.limits[0].relateResources: Required value", WEBHOOK),
    ("limits", "[~]", "12: spec.limits[0]: Invalid value: must be an object", SCHEMA),
    ("limits", "[5]", "12: spec.limits[0]: Invalid value: must be an object", SCHEMA),
    (
        "limits",
        "[{objectSelector: []}]",
        "12: spec.limits[0].objectSelector: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "limits",
        "[{objectSelector: ~}]",
        "12: spec.limits[0].relateResources: Required value",
        WEBHOOK,
    ),
    (
        "limits",
        "[{objectSelector: x}]",
        "12: spec.limits[0].objectSelector: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "limits",
        "[{objectSelector: {}}]",
        "12: spec.limits[0].objectSelector.relateResources: Required value",
        WEBHOOK,
    ),
    ("resources", "[]", "13: spec.limits[0].relateResources: Required value: must have", SCHEMA),
    ("resources", "~", "13: spec.limits[0].relateResources: Required value", WEBHOOK),
    ("resources", "pods", "13: spec.limits[0].relateResources: Invalid value: must be ", SCHEMA),
    (
        "resources",
        '{apiGroups: ["*"], resources: [pods]}',
        "13: spec.limits[0].relateResources: Invalid value: must be an array",
        SCHEMA,
    ),
    (
        "resources",
        "[pods]",
        "13: spec.limits[0].relateResources[0]: Invalid value: must be an object",
        SCHEMA,
    ),
    ("resources", "[{}]", "13: spec.limits[0].relateResources[0].apiGroups: Required v", SCHEMA),
    (
        "resources",
        "[{resources: [pods]}]",
        "13: spec.limits[0].relateResources[0].apiGroups: Required value",
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: [""]}]',
        "13: spec.limits[0].relateResources[0].resources: Required value",
        SCHEMA,
    ),
    (
        "resources",
        "[{apiGroups: [], resources: [pods]}]",
        "13: spec.limits[0].relateResources[0].apiGroups: Required value: must have at least 1 en",
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: "*", resources: [pods]}]',
        "13: spec.limits[0].relateResources[0].apiGroups: Invalid value: must be an array",
        SCHEMA,
    ),
    (
        "resources",
        "[{apiGroups: [~], resources: [pods]}]",
        "13: spec.limits[0].relateResources[0].apiGroups[0]: Invalid value: must be a string",
        WEBHOOK,
    ),
    (
        "resources",
        "[{apiGroups: [5], resources: [pods]}]",
        "13: spec.limits[0].relateResources[0].apiGroups[0]: Invalid value: must be a string",
        SCHEMA,
    ),
    (
        "resources",
        "[{apiGroups: [Apps], resources: [pods]}]",
        '13: spec.limits[0].relateResources[0].apiGroups[0]: Invalid value: "Apps": must consist ',
        WEBHOOK,
    ),
    (
        "resources",
        "[{apiGroups: [apps/v1], resources: [pods]}]",
        '13: spec.limits[0].relateResources[0].apiGroups[0]: Invalid value: "apps/v1": must consi',
        WEBHOOK,
    ),
    ("resources", '[{apiGroups: ["*", coordination.k8s.io], resources: [pods]}]', "", TAKEN),
    (
        "resources",
        "[{apiGroups: [apps, apps], resources: [pods]}]",
        '13: spec.limits[0].relateResources[0].apiGroups[1]: Duplicate value: "apps"',
        WEBHOOK,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: []}]',
        "13: spec.limits[0].relateResources[0].resources: Required value: must have at least 1 en",
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: ""}]',
        "13: spec.limits[0].relateResources[0].resources: Invalid value: must be an array",
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: [""]}]',
        '13: spec.limits[0].relateResources[0].resources[0]: Invalid value: "": must be a plural na',
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: [~]}]',
        "13: spec.limits[0].relateResources[0].resources[0]: Invalid value: must be a string",
        SCHEMA,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: [Pod]}]',
        '13: spec.limits[0].relateResources[0].resources[0]: Invalid value: "Pod": must be a plur',
        WEBHOOK,
    ),
    ("resources", '[{apiGroups: [""], resources: [pod]}]', "", TAKEN),
    (
        "resources",
        '[{apiGroups: [""], resources: [pods/log]}]',
        '13: spec.limits[0].relateResources[0].resources[0]: Invalid value: "pods/log": must be a',
        WEBHOOK,
    ),
    ("resources", '[{apiGroups: [""], resources: ["*"]}]', "", TAKEN),
    (
        "resources",
        '[{apiGroups: [""], resources: ["*/scale"]}]',
        '13: spec.limits[0].relateResources[0].resources[0]: Invalid value: "*/scale": must be a resource',
        WEBHOOK,
    ),
    (
        "resources",
        '[{apiGroups: [""], resources: [pods, pods]}]',
        '13: spec.limits[0].relateResources[0].resources[1]: Duplicate value: "pods"',
        WEBHOOK,
    ),
    ("resources", "[{apiGroups: [nowhere.io], resources: [pods]}]", "", TAKEN),
    ("limit selector", "~", "19: spec.limits[0].selector: Required value", WEBHOOK),
    (
        "limit selector",
        "{}",
        "19: spec.limits[0].selector: Required value: an empty selector would limit nothing",
        WEBHOOK,
    ),
    (
        "limit selector",
        "a=b",
        "19: spec.limits[0].selector: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "limit selector",
        "[]",
        "19: spec.limits[0].selector: Invalid value: must be an object",
        SCHEMA,
    ),
    (
        "limit selector",
        "{matchLabels: {}}",
        "19: spec.limits[0].selector: Required value: an empty selector would limit nothing",
        WEBHOOK,
    ),
    (
        "limit selector",
        "{matchLabels: ~, matchExpressions: ~}",
        "19: spec.limits[0].selector: Required value: an empty selector would limit nothing",
        WEBHOOK,
    ),
    (
        "limit selector",
        "{matchExpressions: []}",
        "19: spec.limits[0].selector: Required value: an empty selector would limit nothing",
        WEBHOOK,
    ),
    (
        "edit",
        ("  - relateResources", "  - objectSelector: {}\n    relateResources"),
        "15: spec.limits[0].relateResources: Forbidden: may not be set together with objectSelector",
        WEBHOOK,
    ),
    ("edit", ("  - relateResources", "  - objectSelector:\n    relateResources"), "", TAKEN),
    ("port", "0", "11: spec.webhook.port: Invalid value: must be a whole number from 1", SCHEMA),
    ("port", "65536", "11: spec.webhook.port: Invalid value: must be a whole number fr", SCHEMA),
    ("port", "-1", "11: spec.webhook.port: Invalid value: must be a whole number from ", SCHEMA),
    ("port", '"9443"', "11: spec.webhook.port: Invalid value: must be a whole number f", SCHEMA),
    ("port", "94.5", "11: spec.webhook.port: Invalid value: must be a whole number fro", SCHEMA),
    ("port", "~", "", TAKEN),
    ("port", "[]", "11: spec.webhook.port: Invalid value: must be a whole number from ", SCHEMA),
    ("port", "1e3", "", TAKEN),
    ("port", "9443.0", "", TAKEN),
    ("port", "1e30", "11: spec.webhook.port: Invalid value: must be a whole number fro", SCHEMA),
    ("port", "5443", "11: spec.webhook.port: Invalid value: 5443: is a port of the si", WEBHOOK),
    ("certDir", "5", "10: spec.webhook.certDir: Invalid value: must be a string", SCHEMA),
    ("certDir", "~", "", TAKEN),
    ("certDir", '""', "", TAKEN),
    ("certDir", "[a]", "10: spec.webhook.certDir: Invalid value: must be a string", SCHEMA),
    (
        "certDir",
        "relative/dir",
        '10: spec.webhook.certDir: Invalid value: "relative/dir": must be an absolute path',
        WEBHOOK,
    ),
    ("certDir", "/a b", "", TAKEN),
    ("lock", "Operator", '8: spec.controller.leaderElectionName: Invalid value: "Oper', WEBHOOK),
    ("lock", "a/b", '8: spec.controller.leaderElectionName: Invalid value: "a/b": mus', WEBHOOK),
    ("lock", "5", "8: spec.controller.leaderElectionName: Invalid value: must be a string", SCHEMA),
    ("lock", "~", "", TAKEN),
    ("lock", '""', "", TAKEN),
    ("lock", "a..b", '8: spec.controller.leaderElectionName: Invalid value: "a..b": m', WEBHOOK),
    ("lock", '"a b"', '8: spec.controller.leaderElectionName: Invalid value: "a b": m', WEBHOOK),
    ("lock", "a" * 254, '8: spec.controller.leaderElectionName: Too long: must have at', SCHEMA),
    ("lock", "a" * 240, '8: spec.controller.leaderElectionName: Invalid value: with "', WEBHOOK),
    ("controller", "{leaderElectionName: a, leaderElectionNamespace: kube-system}", "", TAKEN),
    ("controller", '{leaderElectionName: a, leaderElectionNamespace: ""}', "", TAKEN),
    ("controller", "{leaderElectionName: a, leaderElectionNamespace: ~}", "", TAKEN),
    (
        "controller",
        "{leaderElectionName: a, leaderElectionNamespace: kube.system}",
        '7: spec.controller.leaderElectionNamespace: Invalid value: "kube.system": must',
        WEBHOOK,
    ),
    (
        "controller",
        "{leaderElectionName: a, leaderElectionNamespace: 5}",
        "7: spec.controller.leaderElectionNamespace: Invalid value: must be a string",
        SCHEMA,
    ),
    (
        "controller",
        "{leaderElectionNamespace: kube-system}",
        "7: spec.controller.leaderElectionName: Required value: leaderElectionNamespace is set",
        WEBHOOK,
    ),
    ("controller", "{userAgentOrPrefix: shard-a/}", "", TAKEN),
    ("controller", '{userAgentOrPrefix: "a (b) $x"}', "", TAKEN),
    ("controller", '{userAgentOrPrefix: ""}', "", TAKEN),
    ("controller", "{userAgentOrPrefix: ~}", "", TAKEN),
    (
        "controller",
        '{userAgentOrPrefix: "a\\r\\nX: y"}',
        "7: spec.controller.userAgentOrPrefix: Invalid value: ",
        SCHEMA,
    ),
    (
        "controller",
        '{userAgentOrPrefix: " a"}',
        '7: spec.controller.userAgentOrPrefix: Invalid value: " a": must not begin',
        SCHEMA,
    ),
    (
        "controller",
        "{userAgentOrPrefix: " + 257 * "a" + "}",
        '7: spec.controller.userAgentOrPrefix: Too long: must have at',
        SCHEMA,
    ),
    (
        "controller",
        "{userAgentOrPrefix: /}",
        '7: spec.controller.userAgentOrPrefix: Invalid value: "/": must have a name',
        WEBHOOK,
    ),
    ("controller", "x", "7: spec.controller: Invalid value: must be an object", SCHEMA),
    ("controller", "[]", "7: spec.controller: Invalid value: must be an object", SCHEMA),
    ("controller", "~", "", TAKEN),
    ("controller", "{}", "", TAKEN),
    ("webhook", "x", "9: spec.webhook: Invalid value: must be an object", SCHEMA),
    ("webhook", "[]", "9: spec.webhook: Invalid value: must be an object", SCHEMA),
    ("webhook", "~", "", TAKEN),
    ("webhook", "{}", "", TAKEN),
    ("root", "~", "", TAKEN),
    ("root", "{}", "12: spec.limits: Forbidden: may not be set together with spec.root", SCHEMA),
    (
        "root",
        "{prefix: a, targetStatefulSet: b}",
        "12: spec.limits: Forbidden: may not be set together with spec.root, which has resource",
        WEBHOOK,
    ),
    ("root", "x", "7: spec.root: Invalid value: must be an object", SCHEMA),
)
