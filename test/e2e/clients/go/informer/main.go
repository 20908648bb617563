// SPDX-License-Identifier: Apache-2.0

// Informers as operators have them: client-go's SharedIndexInformer, in the forms that its typed,
// dynamic and metadata clients give. Everything their handlers are told is printed.
//
//	informer [FLAGS] FORM:RESOURCE[@NAMESPACE]...
//
// FORM is typed (protobuf; configmaps, secrets, pods), json (the same client, told to use JSON),
// dynamic or metadata; RESOURCE is RESOURCE or GROUP/VERSION/RESOURCE.
//
// Commands: "dump" prints what the stores hold, "write on" and "write off" start and stop the
// writers (--writers), which annotate, one after the other, the objects that the stores hold; "reach
// VERSION" prints for each informer when it has seen that version.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/kubernetes/cmesh/report"
)

// source is a resource as one of the clients shows it.
type source struct {
	name      string
	form      string
	resource  schema.GroupVersionResource
	namespace string
}

func parseSource(text string) (source, error) {
	s := source{name: text}
	form := strings.SplitN(text, ":", 2)
	if len(form) != 2 {
		return s, fmt.Errorf("%q is not FORM:RESOURCE", text)
	}
	s.form = form[0]
	place := strings.SplitN(form[1], "@", 2)
	if len(place) == 2 {
		s.namespace = place[1]
	}
	switch parts := strings.Split(place[0], "/"); len(parts) {
	case 1:
		s.resource = schema.GroupVersionResource{Version: "v1", Resource: parts[0]}
	case 3:
		s.resource = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	default:
		return s, fmt.Errorf("%q is neither RESOURCE nor GROUP/VERSION/RESOURCE", place[0])
	}
	return s, nil
}

func config(kubeconfig, server, contentType string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags(server, kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 1000 // the client must not be what is slow
	config.ContentType = contentType
	if contentType == runtime.ContentTypeProtobuf {
		config.AcceptContentTypes = contentType + "," + runtime.ContentTypeJSON
	}
	return config, nil
}

// listWatch returns what the informer reads, and an example of its objects.
func (s source) listWatch(kubeconfig, server string) (*cache.ListWatch, runtime.Object, error) {
	contentType := runtime.ContentTypeJSON
	if s.form == "typed" {
		contentType = runtime.ContentTypeProtobuf
	}
	config, err := config(kubeconfig, server, contentType)
	if err != nil {
		return nil, nil, err
	}
	switch s.form {
	case "typed", "json":
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		return s.typed(client)
	case "dynamic":
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		resource := client.Resource(s.resource).Namespace(s.namespace)
		return &cache.ListWatch{
			ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
				return resource.List(context.TODO(), options)
			},
			WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(context.TODO(), options)
			},
		}, &unstructured.Unstructured{}, nil
	case "metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		resource := client.Resource(s.resource).Namespace(s.namespace)
		return &cache.ListWatch{
			ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
				return resource.List(context.TODO(), options)
			},
			WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(context.TODO(), options)
			},
		}, &metav1.PartialObjectMetadata{}, nil
	}
	return nil, nil, fmt.Errorf("no such form: %q", s.form)
}

func (s source) fail(err error) {
	report.Print("error", report.Line{"watch": s.name, "message": err.Error()})
	os.Exit(1)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig to use")
	server := flag.String("server", "", "address that overrides the kubeconfig's")
	writers := flag.Int("writers", 0, "goroutines that write to what the stores hold")
	pause := flag.Duration("pause", 0, "each writer's pause after each write")
	queue := flag.Duration("queue", 0, "how long writers go on with what the stores held")
	flag.Parse()

	informers := []*informer{}
	for _, text := range flag.Args() {
		source, err := parseSource(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		informers = append(informers, newInformer(source, *kubeconfig, *server))
	}
	stop := make(chan struct{})
	for _, informer := range informers {
		go informer.run(stop)
	}
	writer := newWriters(informers, *kubeconfig, *server, *writers, *pause, *queue)
	report.Commands(func(words []string) {
		switch words[0] {
		case "dump":
			dump(informers)
		case "reach":
			version, err := strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			for _, informer := range informers {
				go informer.reach(version)
			}
		case "write":
			writer.enable(len(words) > 1 && words[1] == "on")
		}
	})
}
