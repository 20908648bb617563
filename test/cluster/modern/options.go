// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	noop "go.opentelemetry.io/otel/trace/noop"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	extensionoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	definitionschema "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	discovery "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-openapi/pkg/common"

	"cmesh.test/apiserver/schema"
)

type options struct {
	run       *genericoptions.ServerRunOptions // with --emulated-version and --feature-gates
	etcd      *genericoptions.EtcdOptions
	serving   *genericoptions.SecureServingOptionsWithLoopback
	audit     *genericoptions.AuditOptions
	admission *genericoptions.AdmissionOptions
	clientCA  string
}

func newOptions() *options {
	o := &options{
		run:       genericoptions.NewServerRunOptions(),
		etcd:      genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", storageCodec)),
		serving:   genericoptions.NewSecureServingOptions().WithLoopback(),
		audit:     genericoptions.NewAuditOptions(),
		admission: genericoptions.NewAdmissionOptions(),
	}
	// As in kube-apiserver: events have no watch cache.
	o.etcd.WatchCacheSizes = []string{"events#0"}
	// Its own configuration is of kinds that are not served here.
	o.admission.DisablePlugins = []string{"MutatingAdmissionPolicy"}
	return o
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.run.AddUniversalFlags(flags)
	o.etcd.AddFlags(flags)
	o.serving.AddFlags(flags)
	o.audit.AddFlags(flags)
	o.admission.AddFlags(flags)
	flags.StringVar(&o.clientCA, "client-ca-file", "", "authority of the clients' certificates")
}

func (o *options) complete() error {
	if err := o.run.Complete(); err != nil {
		return err
	}
	all := o.run.Validate()
	all = append(all, o.etcd.Validate()...)
	all = append(all, o.serving.Validate()...)
	all = append(all, o.audit.Validate()...)
	all = append(all, o.admission.Validate()...)
	if o.clientCA == "" {
		all = append(all, errors.New("--client-ca-file is needed"))
	}
	return errors.Join(all...)
}

// config is that of the kinds of resources.go; custom resources use a copy.
func (o *options) config() (*server.RecommendedConfig, error) {
	config := server.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor("kube")
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(authorize) // admission policies may ask it
	for _, apply := range []func() error{
		func() error { return o.run.ApplyTo(&config.Config) },
		func() error { return o.etcd.ApplyTo(&config.Config) },
		func() error { return o.serving.ApplyToConfig(&config.Config) },
		func() error { return o.authenticate(config) },
		func() error { return o.audit.ApplyTo(&config.Config) },
		func() error { return o.admit(config) },
	} {
		if err := apply(); err != nil {
			return nil, err
		}
	}
	config.AggregatedDiscoveryGroupManager = discovery.NewResourceManager("apis")
	describe(&config.Config, schema.GetOpenAPIDefinitions)
	return config, nil
}

// describe tells where the descriptions of the kinds are; server-side apply reads them.
func describe(config *server.Config, definitions common.GetOpenAPIDefinitions) {
	namer := openapi.NewDefinitionNamer(scheme, apiextensions.Scheme)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "Kubernetes"
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "Kubernetes"
}

// authorize lets everybody do everything who has shown a certificate.
func authorize(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	if request.GetUser().GetName() == user.Anonymous {
		return authorizer.DecisionDeny, "without a certificate", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// authenticate knows clients by certificates of the authority; those without one are anonymous.
func (o *options) authenticate(config *server.RecommendedConfig) error {
	delegating := genericoptions.NewDelegatingAuthenticationOptions()
	delegating.RemoteKubeConfigFileOptional = true
	delegating.SkipInClusterLookup = true
	authority, err := dynamiccertificates.NewDynamicCAContentFromFile("clients", o.clientCA)
	if err != nil {
		return err
	}
	delegating.ClientCert.CAContentProvider = authority
	return delegating.ApplyTo(&config.Authentication, config.SecureServing, nil)
}

// admit sets up webhooks, policies and the rule that objects are only made in namespaces that exist; all ask
// this server itself.
func (o *options) admit(config *server.RecommendedConfig) error {
	config.ClientConfig = config.LoopbackClientConfig
	client, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	config.SharedInformerFactory = informers.NewSharedInformerFactory(client, 10*time.Minute)
	return o.admission.ApplyTo(&config.Config, config.SharedInformerFactory, client, dynamicClient,
		feature.DefaultFeatureGate, config.EffectiveVersion)
}

// definitions is the configuration of what serves custom resources.
func (o *options) definitions(kinds *server.RecommendedConfig) (*apiextensions.Config, error) {
	config := *kinds
	config.Config.Serializer = apiextensions.Codecs
	config.PostStartHooks = map[string]server.PostStartHookConfigEntry{}
	config.SkipOpenAPIInstallation = true
	config.MergedResourceConfig = apiextensions.DefaultAPIResourceConfigSource()
	describe(&config.Config, definitionschema.GetOpenAPIDefinitions)
	etcd := *o.etcd
	etcd.StorageConfig.Codec = definitionCodec
	etcd.StorageConfig.StorageObjectCountTracker = config.StorageObjectCountTracker
	config.RESTOptionsGetter = etcd.CreateRESTOptionsGetter(
		&genericoptions.SimpleStorageFactory{StorageConfig: etcd.StorageConfig}, config.ResourceTransformers)
	return &apiextensions.Config{
		GenericConfig: &config,
		ExtraConfig: apiextensions.ExtraConfig{
			CRDRESTOptionsGetter: extensionoptions.NewCRDRESTOptionsGetter(etcd, config.ResourceTransformers,
				config.StorageObjectCountTracker),
			MasterCount:     1,
			ServiceResolver: webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil,
				config.LoopbackClientConfig, noop.NewTracerProvider()),
		},
	}, nil
}
