// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// controller brings the reports of namespaces up to date. What is queued are names of namespaces.
type controller struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	synced     []cache.InformerSynced
	queue      workqueue.RateLimitingInterface
	identity   string
}

func newController(client kubernetes.Interface, factory informers.SharedInformerFactory, identity string) *controller {
	namespaces, configMaps := factory.Core().V1().Namespaces(), factory.Core().V1().ConfigMaps()
	c := &controller{
		client:     client,
		namespaces: namespaces.Lister(),
		configMaps: configMaps.Lister(),
		synced:     []cache.InformerSynced{namespaces.Informer().HasSynced, configMaps.Informer().HasSynced},
		queue:      workqueue.NewRateLimitingQueue(workqueue.DefaultControllerRateLimiter()),
		identity:   identity,
	}
	namespaces.Informer().AddEventHandler(c.handler(metav1.Object.GetName, true))
	configMaps.Informer().AddEventHandler(c.handler(metav1.Object.GetNamespace, false))
	return c
}

// handler queues the namespace that an event is about.
func (c *controller) handler(namespace func(metav1.Object) string, say bool) cache.ResourceEventHandler {
	add := func(thing interface{}, what string) {
		if gone, ok := thing.(cache.DeletedFinalStateUnknown); ok {
			thing = gone.Obj
		}
		object, ok := thing.(metav1.Object)
		if !ok {
			return
		}
		if say {
			klog.InfoS(what, "namespace", object.GetName(), "pod", c.identity)
		}
		c.queue.Add(namespace(object))
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(thing interface{}) { add(thing, "Namespace appeared") },
		UpdateFunc: func(_, thing interface{}) {
			c.queue.Add(namespace(thing.(metav1.Object)))
		},
		DeleteFunc: func(thing interface{}) { add(thing, "Namespace disappeared") },
	}
}

func (c *controller) waitForCaches(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), c.synced...)
}

// run works until one of the contexts ends: this process leads no more, or is to shut down. When it
// returns, nothing is under way.
func (c *controller) run(leading, running context.Context, workers int) {
	if running.Err() != nil {
		return
	}
	klog.InfoS("Started leading", "pod", c.identity)
	ended := sync.WaitGroup{}
	for i := 0; i < workers; i++ {
		ended.Add(1)
		go func() {
			defer ended.Done()
			for c.next() {
			}
		}()
	}
	select {
	case <-leading.Done():
	case <-running.Done():
	}
	c.queue.ShutDown()
	ended.Wait()
	klog.InfoS("Stopped", "pod", c.identity)
}

// next reports one namespace, and again later if that fails.
func (c *controller) next() bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if err := c.reconcile(context.TODO(), key.(string)); err != nil {
		klog.InfoS("Failed, will try again", "namespace", key, "pod", c.identity, "err", err.Error())
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

func (c *controller) reconcile(ctx context.Context, name string) error {
	namespace, err := c.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || namespace.DeletionTimestamp != nil || namespace.Labels[wantedLabel] != "true" {
		return err
	}
	present, err := c.configMaps.ConfigMaps(name).List(labels.Everything())
	if err != nil {
		return err
	}
	wanted := newReport(name, present, c.identity)
	stored, err := c.configMaps.ConfigMaps(name).Get(reportName)
	if apierrors.IsNotFound(err) {
		stored, err = c.create(ctx, wanted)
	}
	if err != nil || stored == nil {
		return err
	}
	return c.update(ctx, stored, wanted)
}

// create returns nil if it did, or what is there although the cache does not have it.
func (c *controller) create(ctx context.Context, wanted *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	client := c.client.CoreV1().ConfigMaps(wanted.Namespace)
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return client.Get(ctx, wanted.Name, metav1.GetOptions{})
	}
	if err == nil {
		klog.InfoS("Created report", "namespace", wanted.Namespace, "configMaps", wanted.Data["configMaps"], "pod", c.identity)
	}
	return nil, err
}

// update changes what is ours and keeps what others added, labels for example.
func (c *controller) update(ctx context.Context, stored, wanted *corev1.ConfigMap) error {
	if stored.Labels[ownerLabel] != ownerName {
		return fmt.Errorf("%s/%s is not ours: it lacks the label %s=%s", stored.Namespace, stored.Name, ownerLabel, ownerName)
	}
	if equality.Semantic.DeepEqual(stored.Data, wanted.Data) {
		return nil
	}
	changed := stored.DeepCopy()
	changed.Data = wanted.Data
	_, err := c.client.CoreV1().ConfigMaps(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		klog.InfoS("Updated report", "namespace", changed.Namespace, "configMaps", changed.Data["configMaps"], "pod", c.identity)
	}
	return err
}
