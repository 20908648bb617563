// SPDX-License-Identifier: Apache-2.0
// Stands for election by a Lease with the JavaScript client, which has no election of its own, in a
// pod; prints how it goes, a JSON object a line.
//
//   node elector.mjs NAMESPACE NAME IDENTITY
//
// "quit" on standard input, or its end, ends the program.
import * as readline from 'node:readline';
import * as k8s from '@kubernetes/client-node';

const LEASE_SECONDS = 8;
const RETRY_MS = 500;

function print(kind, fields) {
  const t = Math.round((performance.timeOrigin + performance.now()) * 1000) * 1000;
  process.stdout.write(`${JSON.stringify({ kind, t, ...fields })}\n`);
}

const [namespace, name, identity] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromCluster();
const api = config.makeApiClient(k8s.CoordinationV1Api);

// Whether this process leads now.
async function tryToLead() {
  const renewTime = new k8s.V1MicroTime();
  const mine = { holderIdentity: identity, leaseDurationSeconds: LEASE_SECONDS, renewTime };
  let lease;
  try {
    lease = await api.readNamespacedLease({ namespace, name });
  } catch (error) {
    if (error.code !== 404) throw error;
    await api.createNamespacedLease({ namespace, body: { metadata: { name }, spec: mine } });
    return true;
  }
  const { holderIdentity, leaseDurationSeconds, renewTime: renewed } = lease.spec;
  const over = !holderIdentity || Date.now() - new Date(renewed) > leaseDurationSeconds * 1000;
  if (holderIdentity !== identity && !over) return false;
  lease.spec = { ...lease.spec, ...mine };
  await api.replaceNamespacedLease({ namespace, name, body: lease });
  return true;
}

let leads = false;
async function run() {
  let now = false;
  try {
    now = await tryToLead();
  } catch (error) {
    print('error', { message: String(error), code: error.code });
  }
  if (now !== leads) print(now ? 'leading' : 'stopped');
  leads = now;
  setTimeout(run, RETRY_MS);
}

run();
const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
  if (line.trim() === 'quit') process.exit(0);
});
lines.on('close', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
