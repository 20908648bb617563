// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// Of sprig Helm leaves out what would tell something of the machine.
func functions(all *template.Template) template.FuncMap {
	out := sprig.TxtFuncMap()
	delete(out, "env")
	delete(out, "expandenv")
	out["toYaml"] = toYaml
	out["fromYaml"] = fromYaml
	out["fromYamlArray"] = fromYamlArray
	out["toJson"] = toJSON
	out["fromJson"] = fromYaml // JSON is YAML
	out["fromJsonArray"] = fromYamlArray
	out["required"] = required
	out["lookup"] = func(_, _, _, _ string) map[string]any { return map[string]any{} }
	out["include"] = include(all)
	out["tpl"] = func(text string, data any) (string, error) { return expand(all, text, data) }
	return out
}

const deepest = 1000 // as in Helm

func include(all *template.Template) func(string, any) (string, error) {
	depth := map[string]int{}
	return func(name string, data any) (string, error) {
		if depth[name] == deepest {
			return "", fmt.Errorf("rendering template has a nested reference name: %s", name)
		}
		depth[name]++
		defer func() { depth[name]-- }()
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
}

func expand(all *template.Template, text string, data any) (string, error) {
	clone, err := all.Clone()
	if err != nil {
		return "", err
	}
	clone.Funcs(template.FuncMap{"include": include(clone)})
	t, err := clone.New("tpl").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, data)
	return strings.ReplaceAll(out.String(), "<no value>", ""), err
}

func toYaml(value any) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func fromYaml(text string) map[string]any {
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		out["Error"] = err.Error()
	}
	return out
}

func fromYamlArray(text string) []any {
	out := []any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		out = []any{err.Error()}
	}
	return out
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func required(message string, value any) (any, error) {
	if text, ok := value.(string); value == nil || ok && text == "" {
		return value, errors.New(message)
	}
	return value, nil
}

// `.Files`: those of the chart that are neither templates nor definitions.
type chartFiles map[string]string

// Get returns a file's text, nothing if there is none.
func (f chartFiles) Get(name string) string { return f[name] }

// Lines returns a file's lines.
func (f chartFiles) Lines(name string) []string {
	return strings.Split(strings.TrimSuffix(f[name], "\n"), "\n")
}

// Glob returns those files whose paths are like the pattern.
func (f chartFiles) Glob(pattern string) chartFiles {
	out := chartFiles{}
	for name, text := range f {
		if ok, _ := path.Match(pattern, name); ok {
			out[name] = text
		}
	}
	return out
}

// AsConfig returns them as the data of a ConfigMap.
func (f chartFiles) AsConfig() string {
	out := map[string]string{}
	for name, text := range f {
		out[path.Base(name)] = text
	}
	return toYaml(out)
}
