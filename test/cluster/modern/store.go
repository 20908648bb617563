// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
)

type restOptions = generic.RESTOptionsGetter

// newStores makes a store of each resource: by group and version, then by plural name.
func newStores(options restOptions) map[schema.GroupVersion]map[string]rest.Storage {
	all := map[schema.GroupVersion]map[string]rest.Storage{}
	contents := []*genericregistry.Store{}
	for _, r := range resources {
		store := r.store(options)
		if all[r.version] == nil {
			all[r.version] = map[string]rest.Storage{}
		}
		all[r.version][r.plural] = &shortNamed{store, r.plural}
		if r.namespaced {
			contents = append(contents, store)
		}
		if r.plural == "pods" {
			all[r.version]["pods/status"] = subresource{store}
		}
	}
	namespaces := all[core]["namespaces"].(*shortNamed)
	all[core]["namespaces"] = &namespaceStore{namespaces, contents}
	return all
}

func (r *resource) store(options restOptions) *genericregistry.Store {
	plural := schema.GroupResource{Group: r.version.Group, Resource: r.plural}
	strategy := &strategy{scheme, names.SimpleNameGenerator, r}
	store := &genericregistry.Store{
		NewFunc:                   r.object,
		NewListFunc:               r.list,
		DefaultQualifiedResource:  plural,
		SingularQualifiedResource: schema.GroupResource{Group: r.version.Group, Resource: r.singular},
		PredicateFunc:             r.predicate,
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            rest.NewDefaultTableConvertor(plural),
	}
	utilruntime.Must(store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: r.attributes}))
	return store
}

// attributes are what selectors look at.
func (r *resource) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	access, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{"metadata.name": access.GetName()}
	if r.namespaced {
		selectable["metadata.namespace"] = access.GetNamespace()
	}
	if r.fields != nil {
		for name, value := range r.fields(object) {
			selectable[name] = value
		}
	}
	return access.GetLabels(), selectable, nil
}

func (r *resource) predicate(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: r.attributes}
}

// shortNamed is a store that kubectl finds under short names as well.
type shortNamed struct {
	*genericregistry.Store
	plural string
}

func (s *shortNamed) ShortNames() []string {
	return map[string][]string{
		"namespaces": {"ns"}, "configmaps": {"cm"}, "pods": {"po"}, "services": {"svc"},
		"serviceaccounts": {"sa"}, "endpoints": {"ep"}, "events": {"ev"},
	}[s.plural]
}

// subresource reads and writes the whole object by another path.
type subresource struct{ readAndUpdate }

type readAndUpdate interface {
	rest.Storage
	rest.Getter
	rest.Updater
}

// strategy takes what the libraries take: objects whose metadata is right.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	*resource
}

func (s *strategy) NamespaceScoped() bool          { return s.namespaced }
func (s *strategy) AllowCreateOnUpdate() bool      { return s.plural == "leases" }
func (s *strategy) AllowUnconditionalUpdate() bool { return s.plural != "leases" }
func (s *strategy) Canonicalize(runtime.Object)    {}

func (s *strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.prepare != nil {
		s.prepare(object)
	}
}

func (s *strategy) PrepareForUpdate(_ context.Context, object, _ runtime.Object) {
	if s.prepare != nil {
		s.prepare(object)
	}
}

// Validate refuses names that no kind here takes; the rest of the metadata was looked at before.
func (s *strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	var errors field.ErrorList
	if access, err := meta.Accessor(object); err == nil {
		for _, why := range validation.NameIsDNSSubdomain(access.GetName(), false) {
			errors = append(errors, field.Invalid(field.NewPath("metadata", "name"), access.GetName(), why))
		}
	}
	return errors
}

func (s *strategy) ValidateUpdate(_ context.Context, object, _ runtime.Object) field.ErrorList {
	return nil
}

func (s *strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (s *strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
