// SPDX-License-Identifier: Apache-2.0
// Loads a kubeconfig with the JavaScript client, lists all pods, prints what it saw as JSON.
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const pods = await config.makeApiClient(k8s.CoreV1Api).listPodForAllNamespaces();
console.log(JSON.stringify({
  contexts: config.getContexts().map((c) => c.name),
  current: config.getCurrentContext(),
  pods: pods.items.length,
}));
