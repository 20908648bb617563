// SPDX-License-Identifier: Apache-2.0

// A replica that stands for election with client-go's leaderelection package and prints how it goes.
// On SIGTERM it gives the lock back, as operators with ReleaseOnCancel do.
//
//	elector --identity NAME [FLAGS]
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"k8s.io/kubernetes/cmesh/report"
)

func fail(err error) {
	if err != nil {
		report.Print("error", report.Line{"message": err.Error()})
		os.Exit(1)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig to use")
	server := flag.String("server", "", "address that overrides the kubeconfig's")
	contentType := flag.String("content-type", "application/vnd.kubernetes.protobuf", "of request bodies")
	kind := flag.String("lock", resourcelock.LeasesResourceLock, "leases, configmaps, endpoints, configmapsleases or endpointsleases")
	namespace := flag.String("namespace", "default", "of the lock")
	name := flag.String("name", "operator", "of the lock")
	identity := flag.String("identity", "", "of this replica")
	lease := flag.Duration("lease-duration", 3*time.Second, "how long a lock holds that is not renewed")
	renew := flag.Duration("renew-deadline", 2*time.Second, "when a leader that cannot renew gives up")
	retry := flag.Duration("retry-period", 300*time.Millisecond, "between tries")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags(*server, *kubeconfig)
	fail(err)
	config.ContentType = *contentType
	client, err := kubernetes.NewForConfig(config)
	fail(err)
	lock, err := resourcelock.New(*kind, *namespace, *name, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: *identity})
	fail(err)

	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
	}()
	go func() {
		report.Commands(func([]string) {})
		cancel()
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *lease,
		RenewDeadline:   *renew,
		RetryPeriod:     *retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { report.Print("leading", report.Line{}) },
			OnStoppedLeading: func() { report.Print("stopped", report.Line{}) },
			OnNewLeader:      func(leader string) { report.Print("leader", report.Line{"leader": leader}) },
		},
	})
}
