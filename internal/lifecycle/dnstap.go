// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// lastDnstap is for the collectors of *dnstap* at the end of the process.
const lastDnstap = time.Second

// dnstapWriter begins the frame of a *dnstap* writer's goroutine.
const dnstapWriter = "github.com/coredns/coredns/plugin/dnstap.(*dio).serve("

// dnstapCallbacks returns callbacks that wait for *dnstap*'s queues, then its writers. *dnstap* does not
// wait: messages would be lost. It exports nothing to wait for, so they read goroutine stacks. Together they
// take timeout at most.
func dnstapCallbacks(timeout time.Duration) (queued, ended func() error) {
	var deadline time.Time
	while := func(busy func(stack string) bool) {
		for slices.ContainsFunc(dnstapWriters(), busy) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
	}
	queued = func() error {
		deadline = time.Now().Add(timeout)
		while(func(stack string) bool { return !isIdle(stack) })
		return nil
	}
	ended = func() error {
		while(func(string) bool { return true })
		if n := len(dnstapWriters()); n > 0 {
			log.Warningf("dnstap: %d collectors have not taken all messages within %s; the rest is lost", n, timeout)
		}
		return nil
	}
	return queued, ended
}

// isIdle reports whether the writer's queue is empty.
func isIdle(stack string) bool {
	state, frames, _ := strings.Cut(stack, "\n")
	return strings.Contains(state, " [select") && strings.HasPrefix(frames, dnstapWriter)
}

func dnstapWriters() (stacks []string) {
	for size := 64 << 10; ; size *= 2 {
		text := make([]byte, size)
		n := runtime.Stack(text, true)
		if n == size {
			continue // it is cut off
		}
		for stack := range strings.SplitSeq(string(text[:n]), "\n\n") {
			if strings.Contains(stack, "\n"+dnstapWriter) {
				stacks = append(stacks, stack)
			}
		}
		return stacks
	}
}
