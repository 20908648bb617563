// SPDX-License-Identifier: Apache-2.0

// Renders a chart as `helm template` does, as far as charts of one part need it: what Helm adds to
// text/template and sprig, values and their schema, the order of objects. Not here: charts within
// charts, hooks, and a cluster to look things up in.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

type files []string

func (f *files) String() string     { return strings.Join(*f, ",") }
func (f *files) Set(s string) error { *f = append(*f, s); return nil }

type options struct {
	release, namespace, kubeVersion string
	values                          files
	crds, notes, asJSON             bool
	objects                         string
}

func parse() (options, string) {
	var o options
	flag.StringVar(&o.release, "release", "cmesh", "name of the release")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the release")
	flag.StringVar(&o.kubeVersion, "kube-version", "1.29.0", "version of the API server")
	flag.Var(&o.values, "values", "file with values; may be repeated, the last one wins")
	flag.BoolVar(&o.crds, "include-crds", false, "the definitions of crds/ too")
	flag.BoolVar(&o.notes, "notes", false, "print what Helm tells when it is done")
	flag.BoolVar(&o.asJSON, "json", false, "print the objects as a JSON list")
	flag.StringVar(&o.objects, "objects", "", "no chart: print this YAML file (- is standard input) as a JSON list")
	flag.Parse()
	return o, flag.Arg(0)
}

func main() {
	if err := run(parse()); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(o options, folder string) error {
	if o.objects != "" {
		return printObjects(o.objects)
	}
	c, err := loadChart(folder)
	if err != nil {
		return err
	}
	manifests, notes, err := c.render(o)
	if err != nil {
		return err
	}
	if o.notes {
		fmt.Print(notes)
		return nil
	}
	if o.asJSON {
		return printJSON(manifests)
	}
	for _, m := range manifests {
		fmt.Printf("---\n# Source: %s\n%s\n", m.source, m.text)
	}
	return nil
}

func printObjects(path string) error {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	manifests, err := split(path, string(text))
	if err != nil {
		return err
	}
	return printJSON(manifests)
}

func printJSON(manifests []manifest) error {
	objects := []any{}
	for _, m := range manifests {
		objects = append(objects, m.object)
	}
	return json.NewEncoder(os.Stdout).Encode(objects)
}
