// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/xeipuuv/gojsonschema"
)

// The chart's values with the user's over them, which must be as the schema says.
func (c *chart) finalValues(paths []string) (map[string]any, error) {
	values := c.values
	for _, name := range paths {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var more map[string]any
		if err := unmarshal(name, text, &more); err != nil {
			return nil, err
		}
		values = merge(values, more)
	}
	return values, c.check(values)
}

// Maps are merged, everything else is replaced, and null takes away, as with Helm's coalescing.
func merge(base, over map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range base {
		out[key] = value
	}
	for key, value := range over {
		below, isMap := value.(map[string]any)
		baseBelow, wasMap := out[key].(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap && wasMap:
			out[key] = merge(baseBelow, below)
		default:
			out[key] = value
		}
	}
	return out
}

func (c *chart) check(values map[string]any) error {
	if c.schema == nil {
		return nil
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(c.schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if result.Valid() {
		return nil
	}
	text := "values don't meet the specifications of the schema(s) in the following chart(s):\n" + c.name() + ":\n"
	for _, e := range result.Errors() {
		text += "- " + e.String() + "\n"
	}
	return errors.New(strings.TrimSpace(text))
}
