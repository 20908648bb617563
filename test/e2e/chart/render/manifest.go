// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
)

type manifest struct {
	source, text string
	object       map[string]any
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*$`)

// Documents that hold comments alone are no objects. Keys must not stand twice.
func split(source, text string) ([]manifest, error) {
	var all []manifest
	for _, document := range separator.Split(text, -1) {
		var object map[string]any
		document = strings.TrimSpace(document)
		if err := unmarshal(source, []byte(document), &object); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, document)
		}
		if object == nil {
			continue
		}
		if object["kind"] == nil || object["apiVersion"] == nil {
			return nil, fmt.Errorf("%s: an object without kind or apiVersion:\n%s", source, document)
		}
		all = append(all, manifest{source, document, object})
	}
	return all, nil
}

// Helm's order of installation, for the kinds that charts usually have; others come last.
var order = []string{
	"Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount",
	"Secret", "ConfigMap", "StorageClass", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
	"Role", "RoleBinding", "Service", "DaemonSet", "Pod", "Deployment", "StatefulSet", "Job", "CronJob",
	"Ingress", "APIService",
}

func rank(m manifest) int {
	for i, kind := range order {
		if m.object["kind"] == kind {
			return i
		}
	}
	return len(order)
}

func sortByKind(all []manifest) {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := rank(all[i]), rank(all[j])
		if a == b && a == len(order) {
			return fmt.Sprint(all[i].object["kind"]) < fmt.Sprint(all[j].object["kind"])
		}
		return a < b
	})
}
