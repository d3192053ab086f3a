// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// wait bounds what a test waits for.
const wait = 30 * time.Second

// line is one of an audit log; N is the number that members gives it.
type line struct {
	Seq   uint64
	Event string
	N     *int
	Lines uint64
}

// members are the members of line n.
func members(n int) []byte { return fmt.Appendf(nil, `"event":"query","n":%d}`, n) }

// decoded returns the lines of an audit log. Each must be an object of JSON, and end.
func decoded(t testing.TB, log []byte) (all []line) {
	t.Helper()
	if len(log) > 0 && log[len(log)-1] != '\n' {
		t.Errorf("a half line at the end: %q", log[wholeLines(log, len(log)):])
	}
	for text := range bytes.Lines(log) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

// checkNumbers checks that the queries are those with the numbers from 0 to n-1, in order, and
// the sequence numbers those from 1 on.
func checkNumbers(t testing.TB, all []line, n int) {
	t.Helper()
	next := 0
	for i, l := range all {
		if l.Seq != uint64(i+1) {
			t.Fatalf("line %d has the sequence number %d", i+1, l.Seq)
		}
		if l.N == nil {
			continue
		}
		if *l.N != next {
			t.Fatalf("line %d is query %d, want %d", i+1, *l.N, next)
		}
		next++
	}
	if next != n {
		t.Errorf("%d queries, want %d", next, n)
	}
}

// newPatientWriter makes a writer whose target may be as slow as a busy machine.
func newPatientWriter(t Target, c Config, log Logger) *Writer {
	w := newWriter(t, c, log)
	w.timeouts = timeouts{write: wait, flush: wait, hang: wait}
	return w
}

func acquire(t testing.TB, target string, c Config, log Logger) *Lease {
	t.Helper()
	to, err := ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	if c.Queue == 0 {
		c.Queue = 1 << 20
	}
	l, err := acquireFrom(to, c, log, newPatientWriter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

// statsOf returns the stats of a target. ok is false if there is no writer.
func statsOf(target string) (s Stats, ok bool) {
	for _, s := range All() {
		if s.Target.String() == target {
			return s, true
		}
	}
	return s, false
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whole returns the contents of a file and of the files that it was rotated to, in order.
func whole(t testing.TB, path string) (all []byte) {
	t.Helper()
	for _, o := range rotatedFiles(path) {
		all = append(all, read(t, o.path)...)
	}
	return append(all, read(t, path)...)
}
