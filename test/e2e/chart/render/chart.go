// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/semver"
	"sigs.k8s.io/yaml"
)

type chart struct {
	metadata  map[string]any
	values    map[string]any
	schema    []byte
	templates map[string]string // path below the chart's folder -> text
	crds      map[string]string
	files     chartFiles // all others
}

func loadChart(folder string) (*chart, error) {
	if folder == "" {
		return nil, errors.New("which chart?")
	}
	c := &chart{templates: map[string]string{}, crds: map[string]string{}, files: chartFiles{}}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return c.take(filepath.ToSlash(strings.TrimPrefix(name, filepath.Clean(folder)+"/")), text)
	})
	if err == nil && c.metadata == nil {
		err = fmt.Errorf("%s: no Chart.yaml", folder)
	}
	return c, err
}

func (c *chart) take(name string, text []byte) error {
	switch {
	case name == "Chart.yaml":
		return unmarshal(name, text, &c.metadata)
	case name == "values.yaml":
		return unmarshal(name, text, &c.values)
	case name == "values.schema.json":
		c.schema = text
	case strings.HasPrefix(name, "templates/"):
		c.templates[name] = string(text)
	case strings.HasPrefix(name, "crds/"):
		c.crds[name] = string(text)
	default:
		c.files[name] = string(text)
	}
	return nil
}

func unmarshal(name string, text []byte, into any) error {
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Names in templates begin with a capital letter: .Chart.AppVersion.
func (c *chart) capitalised() map[string]any {
	out := map[string]any{}
	for key, value := range c.metadata {
		out[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return out
}

func (c *chart) name() string {
	name, _ := c.metadata["name"].(string)
	return name
}

// What templates find below `.`.
func (c *chart) context(o options, values map[string]any) (map[string]any, error) {
	version, err := semver.NewVersion(o.kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	if wanted, ok := c.metadata["kubeVersion"].(string); ok {
		constraint, err := semver.NewConstraint(wanted)
		if err != nil {
			return nil, fmt.Errorf("Chart.yaml: kubeVersion: %w", err)
		}
		if !constraint.Check(version) {
			return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes v%s", wanted, version)
		}
	}
	return map[string]any{
		"Values": values,
		"Chart":  c.capitalised(),
		"Files":  c.files,
		"Release": map[string]any{
			"Name": o.release, "Namespace": o.namespace, "Service": "Helm", "Revision": 1,
			"IsInstall": true, "IsUpgrade": false,
		},
		"Capabilities": map[string]any{"KubeVersion": kubeVersion{
			Version: "v" + version.String(), Major: fmt.Sprint(version.Major()), Minor: fmt.Sprint(version.Minor()),
		}},
	}, nil
}

type kubeVersion struct {
	Version, Major, Minor string
}

// Of a file below templates/ each, in any order.
func (c *chart) texts(context map[string]any) (map[string]string, error) {
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all))
	for name, text := range c.templates {
		if _, err := all.New(path.Join(c.name(), name)).Parse(text); err != nil {
			return nil, err
		}
	}
	out := map[string]string{}
	for name := range c.templates {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		full := path.Join(c.name(), name)
		context["Template"] = map[string]any{"Name": full, "BasePath": path.Join(c.name(), "templates")}
		var text strings.Builder
		if err := all.ExecuteTemplate(&text, full, context); err != nil {
			return nil, err
		}
		out[full] = strings.ReplaceAll(text.String(), "<no value>", "")
	}
	return out, nil
}

// The objects in the order in which Helm makes them, and the notes.
func (c *chart) render(o options) ([]manifest, string, error) {
	values, err := c.finalValues(o.values)
	if err != nil {
		return nil, "", err
	}
	context, err := c.context(o, values)
	if err != nil {
		return nil, "", err
	}
	texts, err := c.texts(context)
	if err != nil {
		return nil, "", err
	}
	notesName := path.Join(c.name(), "templates/NOTES.txt")
	notes := texts[notesName]
	delete(texts, notesName)
	manifests, err := splitAll(texts)
	if err != nil {
		return nil, "", err
	}
	sortByKind(manifests)
	if o.crds {
		definitions, err := splitAll(c.crds)
		if err != nil {
			return nil, "", err
		}
		manifests = append(definitions, manifests...)
	}
	return manifests, notes, nil
}

func splitAll(texts map[string]string) ([]manifest, error) {
	names := []string{}
	for name := range texts {
		names = append(names, name)
	}
	sort.Strings(names)
	var all []manifest
	for _, name := range names {
		some, err := split(name, texts[name])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
