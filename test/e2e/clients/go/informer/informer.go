// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"k8s.io/kubernetes/cmesh/report"
)

// informer is a SharedIndexInformer that prints what it hears.
type informer struct {
	source source
	shared cache.SharedIndexInformer
}

func newInformer(s source, kubeconfig, server string) *informer {
	listWatch, example, err := s.listWatch(kubeconfig, server)
	if err != nil {
		s.fail(err)
	}
	i := &informer{source: s}
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	i.shared = cache.NewSharedIndexInformer(i.noted(listWatch), example, 0, indexers)
	i.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object interface{}) { i.print("add", object, report.Line{}) },
		UpdateFunc: i.updated,
		DeleteFunc: i.deleted,
	})
	if err := i.shared.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		report.Print("error", report.Line{"watch": s.name, "message": err.Error()})
	}); err != nil {
		s.fail(err)
	}
	return i
}

// noted tells of lists and watches as the informer asks for them.
func (i *informer) noted(inner *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListFunc(options)
			if err == nil {
				i.printList(list, options)
			}
			return list, err
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			report.Print("watch", report.Line{"watch": i.source.name, "rv": options.ResourceVersion})
			stream, err := inner.WatchFunc(options)
			if err != nil || !beginsWithList(options) {
				return stream, err
			}
			return watch.Filter(stream, i.notedStream(options)), nil
		},
	}
}

// beginsWithList tells whether the watch is a streaming list as well, which older libraries know
// nothing of.
func beginsWithList(options metav1.ListOptions) bool {
	text, err := json.Marshal(options)
	return err == nil && strings.Contains(string(text), `"sendInitialEvents":true`)
}

// notedStream tells of the list when it is complete.
func (i *informer) notedStream(options metav1.ListOptions) watch.FilterFunc {
	items, complete := 0, false
	return func(event watch.Event) (watch.Event, bool) {
		if complete {
			return event, true
		}
		if event.Type == watch.Added {
			items++
		}
		if event.Type != watch.Bookmark {
			return event, true
		}
		if access, err := meta.Accessor(event.Object); err == nil && access.GetAnnotations()["k8s.io/initial-events-end"] != "" {
			complete = true
			report.Print("list", report.Line{"watch": i.source.name, "from": options.ResourceVersion, "items": items,
				"rv": access.GetResourceVersion(), "streamed": true})
		}
		return event, true
	}
}

func (i *informer) printList(list runtime.Object, options metav1.ListOptions) {
	line := report.Line{"watch": i.source.name, "from": options.ResourceVersion, "items": meta.LenList(list)}
	if access, err := meta.ListAccessor(list); err == nil {
		line["rv"] = access.GetResourceVersion()
	}
	report.Print("list", line)
}

func (i *informer) run(stop <-chan struct{}) {
	go i.shared.Run(stop)
	if cache.WaitForCacheSync(stop, i.shared.HasSynced) {
		report.Print("sync", report.Line{"watch": i.source.name})
	}
}

func (i *informer) print(kind string, object interface{}, line report.Line) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		i.source.fail(err)
	}
	access, err := meta.Accessor(object)
	if err != nil {
		i.source.fail(err)
	}
	line["watch"] = i.source.name
	line["key"] = key
	line["rv"] = access.GetResourceVersion()
	line["labels"] = access.GetLabels()
	report.Print(kind, line)
}

func (i *informer) updated(before, after interface{}) {
	access, err := meta.Accessor(before)
	if err != nil {
		i.source.fail(err)
	}
	i.print("update", after, report.Line{"old": access.GetResourceVersion()})
}

// deleted hears of objects that a list no longer showed by their last known state.
func (i *informer) deleted(object interface{}) {
	line := report.Line{}
	if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
		line["unknown"] = true
		object = unknown.Obj
	}
	i.print("delete", object, line)
}

// reach tells when the informer has seen that version, as a client waits that reads its own writes.
func (i *informer) reach(version uint64) {
	for {
		seen, err := strconv.ParseUint(i.shared.LastSyncResourceVersion(), 10, 64)
		if err == nil && seen >= version {
			report.Print("reached", report.Line{"watch": i.source.name, "rv": version})
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// dump prints all stores in one line: watch -> key -> resourceVersion.
func dump(informers []*informer) {
	stores := map[string]map[string]string{}
	for _, i := range informers {
		store := map[string]string{}
		for _, object := range i.shared.GetStore().List() {
			access, err := meta.Accessor(object)
			if err != nil {
				i.source.fail(err)
			}
			key, _ := cache.MetaNamespaceKeyFunc(object)
			store[key] = access.GetResourceVersion()
		}
		stores[i.source.name] = store
	}
	report.Print("dump", report.Line{"stores": stores})
}
