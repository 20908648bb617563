// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is a kind that is served, in its only version.
type resource struct {
	version    schema.GroupVersion
	plural     string
	singular   string
	object     func() runtime.Object
	list       func() runtime.Object
	namespaced bool
	prepare    func(runtime.Object)            // before it is stored; may be nil
	fields     func(runtime.Object) fields.Set // that selectors may name besides its name and namespace; may be nil
}

func (r *resource) kind() string {
	return reflect.TypeOf(r.object()).Elem().Name()
}

var (
	core         = corev1.SchemeGroupVersion
	coordination = coordinationv1.SchemeGroupVersion
	registration = admissionregistrationv1.SchemeGroupVersion
)

// of makes a function that makes an empty T.
func of[T any, P interface {
	*T
	runtime.Object
}]() func() runtime.Object {
	return func() runtime.Object { return P(new(T)) }
}

var resources = []*resource{
	{core, "namespaces", "namespace", of[corev1.Namespace](), of[corev1.NamespaceList](), false, prepareNamespace, namespaceFields},
	{core, "configmaps", "configmap", of[corev1.ConfigMap](), of[corev1.ConfigMapList](), true, nil, nil},
	{core, "secrets", "secret", of[corev1.Secret](), of[corev1.SecretList](), true, prepareSecret, secretFields},
	{core, "pods", "pod", of[corev1.Pod](), of[corev1.PodList](), true, preparePod, podFields},
	{core, "services", "service", of[corev1.Service](), of[corev1.ServiceList](), true, nil, nil},
	{core, "serviceaccounts", "serviceaccount", of[corev1.ServiceAccount](), of[corev1.ServiceAccountList](), true, nil, nil},
	{core, "endpoints", "endpoints", of[corev1.Endpoints](), of[corev1.EndpointsList](), true, nil, nil},
	{core, "events", "event", of[corev1.Event](), of[corev1.EventList](), true, nil, eventFields},
	{coordination, "leases", "lease", of[coordinationv1.Lease](), of[coordinationv1.LeaseList](), true, nil, nil},
	{registration, "mutatingwebhookconfigurations", "mutatingwebhookconfiguration",
		of[admissionregistrationv1.MutatingWebhookConfiguration](),
		of[admissionregistrationv1.MutatingWebhookConfigurationList](), false, prepareMutating, nil},
	{registration, "validatingwebhookconfigurations", "validatingwebhookconfiguration",
		of[admissionregistrationv1.ValidatingWebhookConfiguration](),
		of[admissionregistrationv1.ValidatingWebhookConfigurationList](), false, prepareValidating, nil},
	{registration, "validatingadmissionpolicies", "validatingadmissionpolicy",
		of[admissionregistrationv1.ValidatingAdmissionPolicy](),
		of[admissionregistrationv1.ValidatingAdmissionPolicyList](), false, preparePolicy, nil},
	{registration, "validatingadmissionpolicybindings", "validatingadmissionpolicybinding",
		of[admissionregistrationv1.ValidatingAdmissionPolicyBinding](),
		of[admissionregistrationv1.ValidatingAdmissionPolicyBindingList](), false, preparePolicyBinding, nil},
}

func prepareSecret(object runtime.Object) {
	if secret := object.(*corev1.Secret); secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
}

func secretFields(object runtime.Object) fields.Set {
	return fields.Set{"type": string(object.(*corev1.Secret).Type)}
}

// preparePod does what nothing else here does: no scheduler and no kubelet sees it.
func preparePod(object runtime.Object) {
	if pod := object.(*corev1.Pod); pod.Status.Phase == "" {
		pod.Status.Phase = corev1.PodPending
	}
}

func podFields(object runtime.Object) fields.Set {
	pod := object.(*corev1.Pod)
	return fields.Set{
		"spec.nodeName":           pod.Spec.NodeName,
		"spec.schedulerName":      pod.Spec.SchedulerName,
		"spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.phase":            string(pod.Status.Phase),
		"status.podIP":            pod.Status.PodIP,
	}
}

func eventFields(object runtime.Object) fields.Set {
	event := object.(*corev1.Event)
	return fields.Set{
		"involvedObject.kind":      event.InvolvedObject.Kind,
		"involvedObject.name":      event.InvolvedObject.Name,
		"involvedObject.namespace": event.InvolvedObject.Namespace,
		"involvedObject.uid":       string(event.InvolvedObject.UID),
		"reason":                   event.Reason,
		"type":                     event.Type,
	}
}
