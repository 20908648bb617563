// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
)

const (
	hostKey     = "host" // of a ConfigMap's data: no two ConfigMaps of a namespace have the same
	portKey     = "port" // what a ConfigMap with a host is given when it has none
	defaultPort = "443"
	hostDefault = `[{"op":"add","path":"/data/` + portKey + `","value":"` + defaultPort + `"}]`
)

// webhooks answers reviews from the informers' caches: /validate refuses a host that another ConfigMap
// of the namespace has, /default sets a port. It allows whatever else it is asked about.
type webhooks struct {
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	identity   string
	ending     int32 // not 0: its answers close their connections
}

// serve answers at an address until the returned function is called. That goes on to answer for the time
// given, so that the Service leads here no more; API servers keep connections, too, and a review that meets
// the end of one fails: so each is closed by an answer. It returns when all reviews are answered. Certificate and key are read at each connection: whoever renews them replaces two files.
func (w *webhooks) serve(address, certDir string) func(time.Duration) {
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
		return &pair, err
	}
	server := &http.Server{
		Addr:              address,
		Handler:           w.handler(),
		TLSConfig:         &tls.Config{GetCertificate: certificate},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		if err := server.ListenAndServeTLS("", ""); err != http.ErrServerClosed {
			klog.Fatalf("The webhooks do not work: %v", err)
		}
	}()
	klog.InfoS("Webhooks", "address", address, "pod", w.identity)
	return func(drain time.Duration) {
		atomic.StoreInt32(&w.ending, 1)
		time.Sleep(drain)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			klog.InfoS("Some reviews were not answered", "err", err.Error())
		}
	}
}

func (w *webhooks) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/validate", w.answer("validate", w.validate))
	mux.HandleFunc("/default", w.answer("default", w.setDefaults))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

type judge func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) error

// answer logs one line for each review.
func (w *webhooks) answer(name string, decide judge) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(out, "this is no AdmissionReview", http.StatusBadRequest)
			return
		}
		asked := review.Request
		answer := &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true}
		if err := decide(asked, answer); err != nil {
			answer.Allowed, answer.Result = false, &metav1.Status{Message: err.Error(), Code: http.StatusForbidden}
		}
		review.Request, review.Response = nil, answer
		klog.InfoS("Reviewed", "webhook", name, "uid", asked.UID, "operation", asked.Operation,
			"namespace", asked.Namespace, "name", asked.Name, "resource", asked.Resource.Resource,
			"subresource", asked.SubResource, "dryRun", asked.DryRun != nil && *asked.DryRun,
			"allowed", answer.Allowed, "known", w.knows(asked.Namespace), "pod", w.identity)
		out.Header().Set("Content-Type", "application/json")
		if atomic.LoadInt32(&w.ending) != 0 {
			out.Header().Set("Connection", "close")
		}
		_ = json.NewEncoder(out).Encode(review)
	}
}

// knows tells whether the cache has the namespace.
func (w *webhooks) knows(namespace string) bool {
	_, err := w.namespaces.Get(namespace)
	return err == nil
}

// hostOf returns the ConfigMap under review, and its host; "" if it has none, or is something else.
func hostOf(asked *admissionv1.AdmissionRequest) (*corev1.ConfigMap, string) {
	configMap := &corev1.ConfigMap{}
	if asked.Resource.Resource != "configmaps" || json.Unmarshal(asked.Object.Raw, configMap) != nil {
		return configMap, ""
	}
	return configMap, configMap.Data[hostKey]
}

func (w *webhooks) validate(asked *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) error {
	_, host := hostOf(asked)
	if host == "" {
		return nil
	}
	present, err := w.configMaps.ConfigMaps(asked.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, other := range present {
		if other.Name != asked.Name && other.Data[hostKey] == host {
			return fmt.Errorf("the host %s is that of the ConfigMap %s already", host, other.Name)
		}
	}
	return nil
}

func (w *webhooks) setDefaults(asked *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
	configMap, host := hostOf(asked)
	if host != "" && configMap.Data[portKey] == "" {
		kind := admissionv1.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = []byte(hostDefault), &kind
	}
	return nil
}
