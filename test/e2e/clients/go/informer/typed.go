// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

var examples = map[string]runtime.Object{
	"configmaps": &v1.ConfigMap{},
	"namespaces": &v1.Namespace{},
	"pods":       &v1.Pod{},
	"secrets":    &v1.Secret{},
	"services":   &v1.Service{},
}

// typed reads through the resource's generated client.
func (s source) typed(client kubernetes.Interface) (*cache.ListWatch, runtime.Object, error) {
	example, known := examples[s.resource.Resource]
	if !known || s.resource.Group != "" {
		return nil, nil, fmt.Errorf("%v has no typed client here", s.resource)
	}
	getter := client.CoreV1().RESTClient()
	return cache.NewListWatchFromClient(getter, s.resource.Resource, s.namespace, fields.Everything()), example, nil
}
