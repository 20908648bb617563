// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"k8s.io/kubernetes/cmesh/report"
)

// writers patch every object that the stores hold: an operator at work, believing that it owns them.
type writers struct {
	informers []*informer
	client    dynamic.Interface
	pause     time.Duration
	queue     time.Duration
	enabled   int32
	count     int64
}

func newWriters(informers []*informer, kubeconfig, server string, number int, pause, queue time.Duration) *writers {
	w := &writers{informers: informers, pause: pause, queue: queue}
	if number == 0 {
		return w
	}
	config, err := config(kubeconfig, server, runtime.ContentTypeJSON)
	if err == nil {
		w.client, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		informers[0].source.fail(err)
	}
	for n := 0; n < number; n++ {
		go w.run(rand.New(rand.NewSource(int64(n))))
	}
	return w
}

func (w *writers) enable(on bool) {
	value := int32(0)
	if on {
		value = 1
	}
	atomic.StoreInt32(&w.enabled, value)
}

func (w *writers) run(random *rand.Rand) {
	for {
		i := w.informers[random.Intn(len(w.informers))]
		objects := i.shared.GetStore().List()
		if atomic.LoadInt32(&w.enabled) == 0 || len(objects) == 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for began := time.Now(); ; {
			w.write(i, objects[random.Intn(len(objects))])
			time.Sleep(w.pause)
			if time.Since(began) >= w.queue {
				break
			}
		}
	}
}

// write prints the answer's status code; 0 is none.
func (w *writers) write(i *informer, object interface{}) {
	access, err := meta.Accessor(object)
	if err != nil {
		i.source.fail(err)
	}
	number := atomic.AddInt64(&w.count, 1)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"written":"%d"}}}`, number)
	resource := w.client.Resource(i.source.resource).Namespace(access.GetNamespace())
	began := time.Now().UnixNano()
	_, err = resource.Patch(context.TODO(), access.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	line := report.Line{"watch": i.source.name, "code": code(err), "began": began}
	line["key"], _ = cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		line["message"] = err.Error()
	}
	report.Print("write", line)
}

func code(err error) int32 {
	if err == nil {
		return 200
	}
	if status, is := err.(errors.APIStatus); is {
		return status.Status().Code
	}
	return 0
}
