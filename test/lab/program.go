// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
)

// Program is the T of a program that has a lab: it ends the program where a test
// would end.
type Program struct {
	failed   bool
	cleanups []func()
}

// Helper implements [T].
func (*Program) Helper() {}

// Failed implements [T].
func (t *Program) Failed() bool { return t.failed }

// Cleanup implements [T].
func (t *Program) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Logf implements [T], on standard error.
func (*Program) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Skipf implements [T]: what a test would skip, a program cannot do.
func (t *Program) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

// Fatalf implements [T]: it cleans up and ends the program with status 1.
func (t *Program) Fatalf(format string, args ...any) {
	t.Logf(format, args...)
	t.failed = true
	t.End()
	os.Exit(1)
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
