#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a kubeconfig with the Python client, lists all pods, prints what it saw as JSON."""
import json
import sys

from kubernetes import client, config

contexts, current = config.list_kube_config_contexts(sys.argv[1])
config.load_kube_config(sys.argv[1])
pods = client.CoreV1Api().list_pod_for_all_namespaces(_request_timeout=20)
print(json.dumps({"contexts": [c["name"] for c in contexts], "current": current["name"],
                  "pods": len(pods.items)}))
