// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Program is the T of a program that has a lab: it ends the program where a test
// would end.
type Program struct {
	mu       sync.Mutex
	err      error // of the first Fatalf
	runs     bool  // Run is under way
	cleanups []func()
}

// Helper implements [T].
func (*Program) Helper() {}

// Failed implements [T].
func (t *Program) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

// Cleanup implements [T].
func (t *Program) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Logf implements [T], on standard error.
func (*Program) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Skipf implements [T]: what a test would skip, a program cannot do.
func (t *Program) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

// Fatalf implements [T]: it cleans up and ends the program with status 1. Below Run it ends its goroutine.
func (t *Program) Fatalf(format string, args ...any) {
	t.Logf(format, args...)
	t.mu.Lock()
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
	runs := t.runs
	t.mu.Unlock()
	if runs {
		runtime.Goexit()
	}
	t.End()
	os.Exit(1)
}

// Run calls f in a goroutine, and End. It returns the first Fatalf of both as an error.
func (t *Program) Run(f func()) error {
	apart := func(f func()) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f()
		}()
		<-ended
	}
	t.mu.Lock()
	t.runs, t.err = true, nil
	t.mu.Unlock()
	apart(f)
	for len(t.cleanups) > 0 { // a Fatalf in one of them ends End
		apart(t.End)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.err
	t.runs, t.err = false, nil
	return err
}

// End runs what Cleanup was given, the last first, once.
func (t *Program) End() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		f()
	}
}
