// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"path/filepath"
	"strings"
	"testing"
)

// The configuration of the last lease is in force; when that ends, as in a reload that fails, the
// one before is again.
func TestConfigOfLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	limit := func() int64 {
		w := writers[Target{"file", path}]
		w.queue.mu.Lock()
		defer w.queue.mu.Unlock()
		if w.queue.limit != w.config.Load().Queue {
			t.Errorf("%d is in force, and %d configured", w.queue.limit, w.config.Load().Queue)
		}
		return w.queue.limit
	}
	first := acquire(t, path, Config{Queue: 1000}, new(logged))
	second := acquire(t, path, Config{Queue: 2000}, new(logged))
	if got := limit(); got != 2000 {
		t.Errorf("%d, want that of the second", got)
	}
	second.Release()
	if got := limit(); got != 1000 {
		t.Errorf("%d, want that of the first again", got)
	}
	third := acquire(t, path, Config{Queue: 3000}, new(logged))
	first.Release()
	if got := limit(); got != 3000 {
		t.Errorf("%d, want that of the third", got)
	}
	third.Release()
	if len(All()) != 0 {
		t.Errorf("left: %v", All())
	}
	if all := decoded(t, read(t, path)); len(all) != 2 {
		t.Errorf("%v, want a start and a stop", all)
	}
}

func TestAcquireFails(t *testing.T) {
	_, err := Acquire(Target{"file", filepath.Join(t.TempDir(), "none", "audit.json")}, Config{}, new(logged))
	if err == nil || !strings.Contains(err.Error(), "expected a file that this user may write to") {
		t.Error(err)
	}
	if len(All()) != 0 {
		t.Error("a writer is left")
	}
}

// No line allocates, but for new chunks.
func TestAppendAllocates(t *testing.T) {
	l := acquire(t, filepath.Join(t.TempDir(), "audit.json"), Config{Queue: 64 << 20}, new(logged))
	m := members(1)
	if n := testing.AllocsPerRun(10000, func() { l.Append(m) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := acquire(b, "/dev/null", Config{Queue: 1 << 30}, new(logged))
	m := []byte(`"event":"query","name":"` + strings.Repeat("x", 400) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		l.Append(m)
	}
}
