// SPDX-License-Identifier: Apache-2.0
// Informers of the JavaScript client; what their callbacks are told is printed, a JSON object a line.
//
//   node informer.mjs SERVER RESOURCE[@NAMESPACE]...
//
// SERVER is an URL, or "in-cluster": what the service account of a pod says. RESOURCE is RESOURCE (of
// the core group) or GROUP/VERSION/RESOURCE. "dump" on standard input prints what the informers hold;
// "quit", or its end, ends the program.
import * as readline from 'node:readline';
import * as k8s from '@kubernetes/client-node';

// As the client's own example restarts an informer that met an error, but sooner.
const RESTART_MS = 200;

function print(kind, fields) {
  const t = Math.round((performance.timeOrigin + performance.now()) * 1000) * 1000;
  process.stdout.write(`${JSON.stringify({ kind, t, ...fields })}\n`);
}

function key(object) {
  const { namespace, name } = object.metadata;
  return namespace ? `${namespace}/${name}` : name;
}

const CORE = {
  configmaps: ['listConfigMapForAllNamespaces', 'listNamespacedConfigMap'],
  secrets: ['listSecretForAllNamespaces', 'listNamespacedSecret'],
  pods: ['listPodForAllNamespaces', 'listNamespacedPod'],
};

// The path to watch, and the function that lists.
function source(config, text) {
  const [resource, namespace] = text.split('@');
  const parts = resource.split('/');
  const inside = namespace ? `/namespaces/${namespace}` : '';
  if (parts.length === 1) {
    const api = config.makeApiClient(k8s.CoreV1Api);
    const [all, one] = CORE[resource];
    return [`/api/v1${inside}/${resource}`, () => (namespace ? api[one]({ namespace }) : api[all]())];
  }
  const [group, version, plural] = parts;
  const api = config.makeApiClient(k8s.CustomObjectsApi);
  const list = () => (namespace
    ? api.listNamespacedCustomObject({ group, version, plural, namespace })
    : api.listClusterCustomObject({ group, version, plural }));
  return [`/apis/${group}/${version}${inside}/${plural}`, list];
}

function start(config, text) {
  const [path, list] = source(config, text);
  let synced = false;
  const noted = async () => {
    const answer = await list();
    print('list', { watch: text, rv: answer.metadata.resourceVersion, items: answer.items.length });
    // The informer takes it over as soon as this function has returned.
    if (!synced) setImmediate(() => print('sync', { watch: text }));
    synced = true;
    return answer;
  };
  const informer = k8s.makeInformer(config, path, noted);
  const shown = (kind) => (object) => print(kind, {
    watch: text,
    key: key(object),
    rv: object.metadata.resourceVersion,
    labels: object.metadata.labels,
  });
  informer.on('add', shown('add'));
  informer.on('update', shown('update'));
  informer.on('delete', shown('delete'));
  informer.on('connect', () => print('watch', { watch: text, rv: informer.latestResourceVersion() }));
  informer.on('error', (error) => {
    print('error', { watch: text, message: String(error), code: error.code ?? error.statusCode });
    setTimeout(() => informer.start(), RESTART_MS);
  });
  informer.start();
  return [text, informer];
}

function dump(informers) {
  const stores = {};
  for (const [text, informer] of informers) {
    stores[text] = {};
    for (const object of informer.list()) stores[text][key(object)] = object.metadata.resourceVersion;
  }
  print('dump', { stores });
}

const [server, ...watches] = process.argv.slice(2);
const config = new k8s.KubeConfig();
if (server === 'in-cluster') {
  config.loadFromCluster();
} else {
  // The client refuses plain HTTP otherwise; kubeconfig-gen writes the same.
  config.loadFromClusterAndUser({ name: 'cmesh', server, skipTLSVerify: true }, { name: 'nobody' });
}
const informers = watches.map((text) => start(config, text));
const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
  if (line.trim() === 'dump') dump(informers);
  if (line.trim() === 'quit') process.exit(0);
});
lines.on('close', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
