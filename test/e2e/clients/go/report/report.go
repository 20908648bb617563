// SPDX-License-Identifier: Apache-2.0

// Package report is how the client programs talk to the tests: one JSON object a line to standard
// output, commands on standard input.
package report

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"time"
)

// Line is what a program has to say; its fields depend on its kind.
type Line map[string]interface{}

var (
	lock   sync.Mutex
	output = bufio.NewWriter(os.Stdout)
)

// Print writes a line with the time, in nanoseconds of the wall clock.
func Print(kind string, line Line) {
	lock.Lock()
	defer lock.Unlock()
	line["kind"] = kind
	line["t"] = time.Now().UnixNano()
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Write(text)
	output.WriteByte('\n')
	if output.Flush() != nil {
		os.Exit(0) // nobody listens any more
	}
}

// Commands calls `run` for each line of standard input, split at white space, until it is closed or
// says "quit".
func Commands(run func(words []string)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 0 && words[0] == "quit" {
			return
		}
		if len(words) > 0 {
			run(words)
		}
	}
}
