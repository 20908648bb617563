// SPDX-License-Identifier: Apache-2.0

// An operator as there are many: informers, a work queue, leader election. It keeps a ConfigMap
// `report` in each namespace that asks for it. It knows nothing of shards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/ioutil"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

type options struct {
	kubeconfig    string
	identity      string
	namespace     string
	workers       int
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration
	certDir       string
	webhooksAt    string
	webhookDrain  time.Duration
}

func parseFlags() options {
	o := options{}
	flag.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig to use (default: $KUBECONFIG, the pod's service account, ~/.kube/config)")
	flag.StringVar(&o.identity, "identity", "", "name in the lease and in reports (default: $POD_NAME, the host's name)")
	flag.StringVar(&o.namespace, "leader-election-namespace", "",
		"namespace of the lease (default: $POD_NAMESPACE, the service account's)")
	flag.IntVar(&o.workers, "workers", 2, "namespaces that are reported at the same time")
	flag.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long a lease holds that is not renewed")
	flag.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "when a leader that cannot renew gives up")
	flag.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "time between tries to lead or to renew")
	flag.StringVar(&o.certDir, "webhook-cert-dir", "", "folder with tls.crt and tls.key for webhooks (default: no webhooks)")
	flag.StringVar(&o.webhooksAt, "webhook-bind-address", ":9443", "where webhooks are served")
	flag.DurationVar(&o.webhookDrain, "webhook-drain", 5*time.Second,
		"how long webhooks are served after SIGTERM, until the Service leads to this pod no more")
	klog.InitFlags(nil)
	flag.Parse()
	return o
}

// complete finds out what was not given.
func (o *options) complete() error {
	if o.identity == "" {
		o.identity = os.Getenv("POD_NAME")
	}
	if o.identity == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		o.identity = name
	}
	if o.namespace == "" {
		o.namespace = os.Getenv("POD_NAMESPACE")
	}
	if o.namespace == "" {
		text, err := ioutil.ReadFile(serviceAccountNamespace)
		if err != nil {
			return errors.New("not in a pod: --leader-election-namespace is needed")
		}
		o.namespace = strings.TrimSpace(string(text))
	}
	return nil
}

// loadConfig looks where controller-runtime looks: the flag, $KUBECONFIG, the pod's service account,
// the home folder.
func loadConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	if path == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if err != rest.ErrNotInCluster {
			return config, err
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

func newClient(path string) (kubernetes.Interface, error) {
	config, err := loadConfig(path)
	if err != nil {
		return nil, err
	}
	config.UserAgent = filepath.Base(os.Args[0])
	config.QPS, config.Burst = 20, 30
	klog.InfoS("API server", "address", config.Host)
	return kubernetes.NewForConfig(config)
}

// onSignal returns a context that ends with SIGTERM or SIGINT; a second one ends the process.
func onSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		klog.InfoS("Shutting down", "signal", (<-signals).String())
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}

// steadyLock has each request end by itself or at its deadline, but not because the election ends:
// client-go cannot give a lease back after it has broken off one of its requests ("Failed to release
// lock"), and the next leader would have to wait until the lease runs out.
type steadyLock struct {
	*resourcelock.LeaseLock
}

func steady(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.Background(), deadline)
	}
	return context.WithCancel(context.Background())
}

func (l steadyLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := steady(ctx)
	defer cancel()
	return l.LeaseLock.Get(ctx)
}

func (l steadyLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := steady(ctx)
	defer cancel()
	return l.LeaseLock.Create(ctx, r)
}

func (l steadyLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := steady(ctx)
	defer cancel()
	return l.LeaseLock.Update(ctx, r)
}

// lead has the controller work while this process leads, until ctx ends. The lease is given back
// after the work has ended, never before: the next leader may start at once.
func lead(ctx context.Context, o options, client kubernetes.Interface, c *controller) error {
	lock := steadyLock{&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: "report-operator"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
	}}
	election, endElection := context.WithCancel(context.Background())
	defer endElection()
	led, done := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   o.leaseDuration,
		RenewDeadline:   o.renewDeadline,
		RetryPeriod:     o.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(led)
				defer close(done)
				c.run(leading, ctx, o.workers)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				klog.InfoS("Leader", "leader", leader, "pod", o.identity)
			},
		},
	})
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		select {
		case <-led:
			<-done
		default:
		}
		endElection()
	}()
	elector.Run(election)
	if ctx.Err() == nil {
		return errors.New("the lease is lost")
	}
	return nil
}

func run() error {
	o := parseFlags()
	if err := o.complete(); err != nil {
		return err
	}
	client, err := newClient(o.kubeconfig)
	if err != nil {
		return err
	}
	ctx := onSignal()
	// Replicas that do not lead follow the cluster too, so that they can take over at once, and answer
	// reviews.
	factory := informers.NewSharedInformerFactory(client, 10*time.Minute)
	c := newController(client, factory, o.identity)
	caches, endCaches := context.WithCancel(context.Background())
	defer endCaches()
	factory.Start(caches.Done())
	if !c.waitForCaches(ctx) {
		return nil
	}
	if o.certDir == "" {
		return lead(ctx, o, client, c)
	}
	w := &webhooks{namespaces: c.namespaces, configMaps: c.configMaps, identity: o.identity}
	endWebhooks := w.serve(o.webhooksAt, o.certDir)
	err = lead(ctx, o, client, c)
	if err != nil {
		o.webhookDrain = 0
	}
	endWebhooks(o.webhookDrain)
	return err
}

func main() {
	err := run()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report-operator:", err)
		os.Exit(1)
	}
}
