// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"
)

// A request for the lease goes on when the election ends, but not beyond its deadline.
func TestSteady(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	parent, end := context.WithDeadline(context.Background(), deadline)
	ctx, cancel := steady(parent)
	end()
	if ctx.Err() != nil {
		t.Error("a request of the lease ends with the election:", ctx.Err())
	}
	if own, ok := ctx.Deadline(); !ok || !own.Equal(deadline) {
		t.Error("its deadline is", own, "not", deadline)
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("it does not end at all")
	}
}
