# SPDX-License-Identifier: Apache-2.0
"""Pods with an operator in this process that allows whatever it is asked about, and notes each review as a whole.
It also converts custom resources, and its webhooks at /default/mark-* set a key of that name.
"""

import base64
import http.server
import json
import os
import ssl
import threading
import time

import webhook_pods

CONVERT = "/convert"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = review.pop("request")
        review["response"] = self.server.answer(self.path.partition("?")[0], asked)
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Notes what it is asked."""

    daemon_threads = True

    def __init__(self, address, folder):
        super().__init__(address, Handler)
        self.folder = folder
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.folder, "tls.crt"), os.path.join(self.folder, "tls.key"))
        with context.wrap_socket(request, server_side=True) as tls:
            super().finish_request(tls, client_address)

    def shutdown_request(self, request):
        request.close()

    def handle_error(self, request, client_address):
        pass  # a connection that was made to see whether it is there

    def answer(self, path, asked):
        self.asked.append((time.time(), path, asked))
        if path == CONVERT:
            for thing in asked["objects"]:
                thing["apiVersion"] = asked["desiredAPIVersion"]
            return {"uid": asked["uid"], "convertedObjects": asked["objects"], "result": {"status": "Success"}}
        answer = {"uid": asked["uid"], "allowed": True}
        mark = path.rpartition("/")[2]
        if mark.startswith("mark") and mark not in asked["object"].get("data", {}):
            patch = json.dumps([{"op": "add", "path": f"/data/{mark}", "value": "1"}]).encode()
            answer.update(patchType="JSONPatch", patch=base64.b64encode(patch).decode())
        return answer


class NotingPod(webhook_pods.WebhookPod):
    def start_operator(self):
        self.operator = self.server = Server((self.address, webhook_pods.PORT), self.case.certificates.path)

    def answers(self):
        return True

    def asked(self):
        """All of (when, path, request of the review), in order."""
        return self.server.asked

    def reviews(self):
        found = []
        for at, path, asked in self.asked():
            if path != CONVERT:
                space, name = asked.get("namespace", ""), asked.get("name") or named(asked)
                words = path[1:], asked["operation"], space, name, asked["resource"]["resource"]
                found.append(webhook_pods.Review(at, self.name, self.of, *words, allowed=True, known=True, had=True))
        return found

    def end(self):
        self.set_status(ready=False)
        self.stop()
        self.delete()

    def stop(self):
        if self.operator is not None:
            self.operator.shutdown()
            self.operator.server_close()
            self.operator = None
        super().stop()


def named(asked):
    """By what is created."""
    return (asked.get("object") or {}).get("metadata", {}).get("name", "")
