// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	reportName  = "report"
	wantedLabel = "example.com/report" // "true" on namespaces that are to have one
	ownerLabel  = "app.kubernetes.io/managed-by"
	ownerName   = "report-operator"
)

// newReport tells how many ConfigMaps there are besides reports, how many keys and bytes they hold,
// and who counted.
func newReport(namespace string, present []*corev1.ConfigMap, identity string) *corev1.ConfigMap {
	count, keys, bytes := 0, 0, 0
	for _, configMap := range present {
		if configMap.Name == reportName {
			continue
		}
		count++
		keys += len(configMap.Data) + len(configMap.BinaryData)
		for _, value := range configMap.Data {
			bytes += len(value)
		}
		for _, value := range configMap.BinaryData {
			bytes += len(value)
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      reportName,
			Labels:    map[string]string{ownerLabel: ownerName},
		},
		Data: map[string]string{
			"configMaps": strconv.Itoa(count),
			"keys":       strconv.Itoa(keys),
			"bytes":      strconv.Itoa(bytes),
			"reportedBy": identity,
		},
	}
}
