// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
)

// runner is the lab.T of a program: it ends the program where a test would end.
type runner struct {
	failed   bool
	cleanups []func()
}

func (*runner) Helper()            {}
func (t *runner) Failed() bool     { return t.failed }
func (t *runner) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (*runner) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (t *runner) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

func (t *runner) Fatalf(format string, args ...any) {
	t.Logf(format, args...)
	t.failed = true
	t.cleanup()
	os.Exit(1)
}

// cleanup runs what Cleanup was given, the last first, once.
func (t *runner) cleanup() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		f()
	}
}
