// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// A Fatalf of a part of a program, in a cleanup or in another goroutine too, ends the part, whose
// cleanups all run, and leaves the next part alone.
func TestProgramRun(t *testing.T) {
	p := new(lab.Program)
	var seen []string
	note := func(what string) { seen = append(seen, what) }
	fatal := func(reason string) { p.Fatalf("%s", reason) }
	for _, tt := range []struct {
		name string
		f    func()
		seen []string
		err  error
	}{
		{"good", func() { p.Cleanup(func() { note("cleaned") }) }, []string{"cleaned"}, nil},
		{"fails", func() {
			p.Cleanup(func() {
				if p.Failed() {
					note("failed")
				}
			})
			fatal("no switch")
			note("went on")
		}, []string{"failed"}, errors.New("no switch")},
		{"a cleanup fails", func() {
			p.Cleanup(func() { note("first") })
			p.Cleanup(func() { fatal("still there") })
			p.Cleanup(func() { note("last") })
		}, []string{"last", "first"}, errors.New("still there")},
		{"another goroutine fails", func() {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				fatal("no answer")
			}()
			<-ended
			note("went on")
			fatal("later")
		}, []string{"went on"}, errors.New("no answer")},
		{"good again", func() { note("ran") }, []string{"ran"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen = nil
			err := p.Run(tt.f)
			if (err == nil) != (tt.err == nil) || err != nil && err.Error() != tt.err.Error() {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if !slices.Equal(seen, tt.seen) {
				t.Errorf("%q, want %q", seen, tt.seen)
			}
			if p.Failed() {
				t.Error("it has failed still")
			}
		})
	}
}
