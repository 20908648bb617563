#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a URL as Python programs do, by `urllib` or by `requests`: prints status and body, or the
error, as JSON. Proxy and authorities are the environment's."""
import json
import sys
import urllib.error
import urllib.request

import requests


def by_urllib(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.status, answer.read().decode()


def by_requests(url):
    answer = requests.get(url, timeout=20)
    return answer.status_code, answer.text


try:
    status, body = {"urllib": by_urllib, "requests": by_requests}[sys.argv[1]](sys.argv[2])
    print(json.dumps({"status": status, "body": body}))
except (urllib.error.URLError, requests.RequestException, OSError) as error:
    print(json.dumps({"error": str(error)}))
