// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// lastDnstap bounds the wait for the collectors of *dnstap* at the end of the process. Targets of
// *audit* have as long.
const lastDnstap = time.Second

// dnstapWriter begins the frame of the goroutine by which *dnstap* writes to a collector.
const dnstapWriter = "github.com/coredns/coredns/plugin/dnstap.(*dio).serve("

// dnstapCallbacks returns two callbacks for the end of the process. queued waits until *dnstap* has written
// its queues. Then *dnstap* ends its writers without waiting for them: a writer may end before its queue is
// empty, and the process before a writer has flushed. ended waits until the writers have ended. *dnstap*
// exports nothing to wait for, so both callbacks read the stacks of goroutines. Together they wait for
// timeout at most. Their errors are always nil.
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

// isIdle reports whether a writer waits for messages, which it does only when its queue is empty.
func isIdle(stack string) bool {
	state, frames, _ := strings.Cut(stack, "\n")
	return strings.Contains(state, " [select") && strings.HasPrefix(frames, dnstapWriter)
}

// dnstapWriters returns the stacks of the writers, each with the line of its state before it.
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
