// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
)

// namespaceStore deletes a namespace together with what is in it, as no controller would. Custom
// resources stay. Several at once are not deleted.
type namespaceStore struct {
	oneByOne
	contents []*genericregistry.Store
}

// oneByOne is what a store can do, but for deleting collections.
type oneByOne interface {
	rest.StorageWithReadiness
	rest.Getter
	rest.Lister
	rest.CreaterUpdater
	rest.GracefulDeleter
	rest.Watcher
	rest.Scoper
	rest.ShortNamesProvider
	rest.SingularNameProvider
}

func (s *namespaceStore) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if _, err := s.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, false, err
	}
	inside := request.WithNamespace(ctx, name)
	for _, store := range s.contents {
		also := &metav1.DeleteOptions{DryRun: options.DryRun}
		_, err := store.DeleteCollection(inside, rest.ValidateAllObjectFunc, also, &internalversion.ListOptions{})
		if err != nil {
			return nil, false, err
		}
	}
	return s.oneByOne.Delete(ctx, name, validate, options)
}

func prepareNamespace(object runtime.Object) {
	namespace := object.(*corev1.Namespace)
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	namespace.Status.Phase = corev1.NamespaceActive
}

func namespaceFields(object runtime.Object) fields.Set {
	return fields.Set{"status.phase": string(object.(*corev1.Namespace).Status.Phase)}
}

// makeNamespaces makes those that every cluster has.
func makeNamespaces(hook server.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(hook, namespace, metav1.CreateOptions{})
		if err != nil && !errors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
