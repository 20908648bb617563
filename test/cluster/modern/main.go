// SPDX-License-Identifier: Apache-2.0

// A small API server on Kubernetes' own libraries of today, for tests of what reads and watches: watch
// cache, streaming lists, lists of a version from memory, protobuf, custom resources, admission webhooks
// and aggregated discovery are the real code. It has the kinds of resources.go and custom resources, and
// what no library has is missing: RBAC (whoever has a certificate may do all), controllers, defaults and
// validation of each kind.
//
//	kube-apiserver --etcd-servers=URL --client-ca-file=FILE [--emulated-version=kube=1.33] [FLAGS]
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
)

// run serves until the context ends.
func run(ctx context.Context, o *options) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	// Custom resources stand behind the other kinds, which answer what is not found in either.
	definitions, err := o.definitions(config)
	if err != nil {
		return err
	}
	custom, err := definitions.Complete().New(server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	kinds, err := config.Complete().New("kinds", custom.GenericAPIServer)
	if err != nil {
		return err
	}
	if err := install(kinds, config.RESTOptionsGetter); err != nil {
		return err
	}
	if err := listCustomGroups(kinds, custom); err != nil {
		return err
	}
	prepared := kinds.PrepareRun()
	// What serves custom resources adds their description to that of the other kinds.
	custom.GenericAPIServer.StaticOpenAPISpec = kinds.StaticOpenAPISpec
	custom.GenericAPIServer.OpenAPIVersionedService = kinds.OpenAPIVersionedService
	custom.GenericAPIServer.OpenAPIV3VersionedService = kinds.OpenAPIV3VersionedService
	return prepared.RunWithContext(ctx)
}

// install serves the kinds of resources.go.
func install(to *server.GenericAPIServer, storage restOptions) error {
	for group, stores := range newStores(storage) {
		info := server.NewDefaultAPIGroupInfo(group.Group, scheme, parameterCodec, codecs)
		info.VersionedResourcesStorageMap[group.Version] = map[string]rest.Storage{}
		for name, store := range stores {
			info.VersionedResourcesStorageMap[group.Version][name] = store
		}
		if group.Group == "" {
			if err := to.InstallLegacyAPIGroup(server.DefaultLegacyAPIPrefix, &info); err != nil {
				return err
			}
		} else if err := to.InstallAPIGroup(&info); err != nil {
			return err
		}
	}
	return to.AddPostStartHook("namespaces", makeNamespaces)
}

func main() {
	o := newOptions()
	command := &cobra.Command{
		Use:          "kube-apiserver",
		Short:        "A small API server on Kubernetes' libraries, for tests",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.run.ComponentGlobalsRegistry.Set()
		},
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return run(command.Context(), o)
		},
	}
	o.addFlags(command.Flags())
	command.SetContext(server.SetupSignalContext())
	os.Exit(cli.Run(command))
}
