// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var (
	scheme          = newScheme()
	codecs          = serializer.NewCodecFactory(scheme)
	parameterCodec  = runtime.NewParameterCodec(scheme)
	storageCodec    = codecs.LegacyCodec(corev1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion, admissionregistrationv1.SchemeGroupVersion)
	definitionCodec = apiextensions.Codecs.LegacyCodec(extensions.SchemeGroupVersion)
)

// newScheme knows each kind as it is on the wire, and the same type again as the form in memory: so
// nothing is ever converted.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, r := range resources {
		memory := schema.GroupVersion{Group: r.version.Group, Version: runtime.APIVersionInternal}
		s.AddKnownTypes(memory, r.object(), r.list())
		if r.fields != nil {
			utilruntime.Must(s.AddFieldLabelConversionFunc(r.version.WithKind(r.kind()), r.convertField))
		}
	}
	return s
}

// convertField lets a field selector through that names a field of the kind.
func (r *resource) convertField(name, value string) (string, string, error) {
	if _, known := r.fields(r.object())[name]; known || name == "metadata.name" || name == "metadata.namespace" {
		return name, value, nil
	}
	return "", "", fmt.Errorf("%q is not a known field selector", name)
}
