// SPDX-License-Identifier: Apache-2.0
// Fetches an https URL through the proxy that HTTPS_PROXY names, with what Node has itself: a tunnel by
// CONNECT, and TLS in it. Prints status and body, or the error, as JSON.
import http from 'node:http';
import https from 'node:https';

const url = new URL(process.argv[2]);
const proxy = new URL(process.env.HTTPS_PROXY);
const host = `${url.hostname}:${url.port || 443}`;

function say(told) {
  console.log(JSON.stringify(told));
  process.exit();
}

const options = {
  host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: host, headers: { host },
};
http.request(options)
  .on('connect', (answer, socket) => {
    if (answer.statusCode !== 200) {
      say({ error: `the proxy answered ${answer.statusCode}` });
    }
    https.get(url, { socket, agent: false }, (response) => {
      let body = '';
      response.on('data', (data) => { body += data; });
      response.on('end', () => say({ status: response.statusCode, body }));
    }).on('error', (error) => say({ error: error.message }));
  })
  .on('error', (error) => say({ error: error.message }))
  .end();
