#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a kubeconfig as the clients on aiohttp do, kopf and kubernetes_asyncio, which are in no
package here: the token in a header of the session, what the user's password is in its `auth`, the
server's URL as it stands. Lists all pods, prints how many as JSON."""
import asyncio
import base64
import json
import ssl
import sys

import aiohttp
import yaml


def named(config, kind, name):
    return next(entry[kind] for entry in config[kind + "s"] if entry["name"] == name)


def trust(cluster):
    """Made for plain HTTP, too."""
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(cadata=base64.b64decode(data).decode() if data else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def main(path):
    with open(path, encoding="utf-8") as f:
        config = yaml.safe_load(f)
    context = named(config, "context", config["current-context"])
    cluster = named(config, "cluster", context["cluster"])
    user = named(config, "user", context["user"])
    headers, auth = {}, None
    if user.get("token"):
        headers["Authorization"] = "Bearer " + user["token"]
    if user.get("username") and user.get("password"):
        auth = aiohttp.BasicAuth(user["username"], user["password"])
    connector = aiohttp.TCPConnector(limit=0, ssl=trust(cluster))
    async with aiohttp.ClientSession(connector=connector, headers=headers, auth=auth) as session:
        url = cluster["server"].rstrip("/") + "/api/v1/pods"
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=20)) as answer:
            answer.raise_for_status()
            print(json.dumps({"pods": len((await answer.json())["items"])}))


asyncio.run(main(sys.argv[1]))
