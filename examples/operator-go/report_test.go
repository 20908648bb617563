// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}, Data: data}
}

func namespace(wanted string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "team-a", Labels: map[string]string{wantedLabel: wanted}}}
}

// reconciled returns the report after one pass over these objects; hidden ones are not in the cache.
func reconciled(t *testing.T, hidden runtime.Object, seen ...runtime.Object) (*corev1.ConfigMap, error) {
	client := fake.NewSimpleClientset(seen...)
	factory := informers.NewSharedInformerFactory(client, 0)
	c := newController(client, factory, "pod-0")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory.Start(ctx.Done())
	c.waitForCaches(ctx)
	if hidden != nil {
		if err := client.Tracker().Add(hidden); err != nil {
			t.Fatal(err)
		}
	}
	err := c.reconcile(ctx, "team-a")
	report, missing := client.CoreV1().ConfigMaps("team-a").Get(ctx, reportName, metav1.GetOptions{})
	if missing != nil {
		return nil, err
	}
	return report, err
}

func expect(t *testing.T, report *corev1.ConfigMap, count, keys, bytes string) {
	t.Helper()
	if report == nil {
		t.Fatal("there is no report")
	}
	data := report.Data
	if data["configMaps"] != count || data["keys"] != keys || data["bytes"] != bytes || data["reportedBy"] != "pod-0" {
		t.Fatalf("the report says %v", data)
	}
}

func TestCreates(t *testing.T) {
	report, err := reconciled(t, nil, namespace("true"),
		configMap("one", map[string]string{"a": "12", "b": "345"}), configMap("two", nil))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, report, "2", "2", "5")
}

func TestUpdatesWhatIsItsOwn(t *testing.T) {
	old := newReport("team-a", nil, "pod-9")
	old.Labels["kept"] = "yes"
	report, err := reconciled(t, nil, namespace("true"), old, configMap("one", map[string]string{"a": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, report, "1", "1", "1")
	if report.Labels["kept"] != "yes" {
		t.Fatal("another's label is lost")
	}
}

func TestUpdatesWhatItDoesNotSee(t *testing.T) {
	report, err := reconciled(t, newReport("team-a", nil, "pod-9"), namespace("true"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, report, "0", "0", "0")
}

func TestKeepsAnothersConfigMap(t *testing.T) {
	report, err := reconciled(t, nil, namespace("true"), configMap(reportName, map[string]string{"x": "y"}))
	if err == nil || report.Data["x"] != "y" {
		t.Fatalf("%v %v", err, report)
	}
}

func TestReportsOnlyWhereItIsWanted(t *testing.T) {
	report, err := reconciled(t, nil, namespace("false"), configMap("one", nil))
	if err != nil || report != nil {
		t.Fatalf("%v %v", err, report)
	}
}
