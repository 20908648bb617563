// SPDX-License-Identifier: Apache-2.0

package main

import (
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

// listCustomGroups keeps the groups of custom resources in /apis as older clients read it, where
// kube-aggregator does so in a whole control plane. They read the aggregated one by themselves.
func listCustomGroups(to *server.GenericAPIServer, custom *apiserver.CustomResourceDefinitions) error {
	to.DiscoveryGroupManager.AddGroup(groupOf("apiextensions.k8s.io", "v1"))
	definitions := custom.Informers.Apiextensions().V1().CustomResourceDefinitions()
	update := func(object interface{}) {
		changed, is := object.(*extensions.CustomResourceDefinition)
		if !is {
			changed, is = object.(cache.DeletedFinalStateUnknown).Obj.(*extensions.CustomResourceDefinition)
		}
		if !is {
			return
		}
		group := changed.Spec.Group
		versions := []string{}
		all, _ := definitions.Lister().List(labels.Everything())
		for _, definition := range all {
			for _, version := range definition.Spec.Versions {
				if definition.Spec.Group == group && version.Served {
					versions = append(versions, version.Name)
				}
			}
		}
		if len(versions) == 0 {
			to.DiscoveryGroupManager.RemoveGroup(group)
			return
		}
		to.DiscoveryGroupManager.AddGroup(groupOf(group, versions...))
	}
	_, err := definitions.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    update,
		UpdateFunc: func(_, object interface{}) { update(object) },
		DeleteFunc: update,
	})
	return err
}

func groupOf(name string, versions ...string) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, version := range versions {
		pair := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
		group.Versions = append(group.Versions, pair)
	}
	group.PreferredVersion = group.Versions[0]
	return group
}
