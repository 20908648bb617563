// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func configMapWith(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-1", Name: name}, Data: data}
}

// review asks as an API server does.
func review(t *testing.T, w *webhooks, path, resource string, thing interface{}) *admissionv1.AdmissionResponse {
	raw, err := json.Marshal(thing)
	if err != nil {
		t.Fatal(err)
	}
	asked := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1", Name: "new", Namespace: "team-1"}}
	asked.Request.Resource.Resource, asked.Request.Object.Raw = resource, raw
	body, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	out := httptest.NewRecorder()
	w.handler().ServeHTTP(out, httptest.NewRequest("POST", path, strings.NewReader(string(body))))
	answered := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(out.Body.Bytes(), &answered); err != nil || answered.Response == nil || answered.Response.UID != "1" {
		t.Fatal("no answer:", err, out.Body.String())
	}
	return answered.Response
}

func TestReviews(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	namespaces, configMaps := factory.Core().V1().Namespaces(), factory.Core().V1().ConfigMaps()
	w := &webhooks{namespaces: namespaces.Lister(), configMaps: configMaps.Lister(), identity: "pod"}
	if err := configMaps.Informer().GetStore().Add(configMapWith("old", map[string]string{"host": "a"})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, resource string
		data           map[string]string
		allowed        bool
		patch          string
	}{
		{"/validate", "configmaps", map[string]string{"host": "a"}, false, ""},
		{"/validate", "configmaps", map[string]string{"host": "b"}, true, ""},
		{"/validate", "configmaps", nil, true, ""},
		{"/validate", "secrets", map[string]string{"host": "a"}, true, ""},
		{"/default", "configmaps", map[string]string{"host": "a"}, true, hostDefault},
		{"/default", "configmaps", map[string]string{"host": "a", "port": "80"}, true, ""},
		{"/default", "configmaps", nil, true, ""},
	} {
		answer := review(t, w, c.path, c.resource, configMapWith("new", c.data))
		if answer.Allowed != c.allowed || string(answer.Patch) != c.patch {
			t.Error(c, "is answered", answer.Allowed, string(answer.Patch))
		}
	}
}

func TestEnd(t *testing.T) {
	w := &webhooks{ending: 1, namespaces: informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0).Core().V1().Namespaces().Lister()}
	out := httptest.NewRecorder()
	w.handler().ServeHTTP(out, httptest.NewRequest("POST", "/default", strings.NewReader(`{"request":{"uid":"1"}}`)))
	if out.Code != http.StatusOK || out.Header().Get("Connection") != "close" {
		t.Error("answered", out.Code, out.Header())
	}
}

func TestNoReview(t *testing.T) {
	out := httptest.NewRecorder()
	(&webhooks{}).handler().ServeHTTP(out, httptest.NewRequest("POST", "/validate", strings.NewReader("{}")))
	if out.Code != http.StatusBadRequest {
		t.Error("answered", out.Code)
	}
}
