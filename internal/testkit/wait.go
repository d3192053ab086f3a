// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"testing"
	"time"
)

const (
	// Patience is how long a test waits for something that is going to happen. It is long because
	// the machine may be busy, and costs nothing when the machine is not.
	Patience = time.Minute
	// pollEvery is the time between two looks at a condition that has no event.
	pollEvery = 2 * time.Millisecond
)

// Eventually calls check until it returns nil, or true. It ends the test if that takes longer than
// Patience.
func Eventually[F func() bool | func() error](t testing.TB, what string, check F) {
	t.Helper()
	OnChange(t, ticks{}, what, check)
}

// OnChange is Eventually, and calls check only after changes: it fails where source does not report
// the change that check waits for.
func OnChange[F func() bool | func() error](t testing.TB, source interface{ Changed() <-chan struct{} }, what string, check F) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		changed := source.Changed() // before the look, or a change between the two is missed
		err := call(check)
		if err == nil {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, Patience, err)
		}
	}
}

func call(check any) error {
	switch check := check.(type) {
	case func() error:
		return check()
	case func() bool:
		if check() {
			return nil
		}
	}
	return errors.New("it does not hold")
}

// ticks changes all the time.
type ticks struct{}

func (ticks) Changed() <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(pollEvery, func() { close(c) })
	return c
}
