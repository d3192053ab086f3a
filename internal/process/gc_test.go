// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
)

func TestGCPercent(t *testing.T) {
	for _, tt := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing", 0, 3200},
		{"a small node", 8 << 20, 400},
		{"in between", 50 << 20, 100},
		{"a million names", 256 << 20, 25},
	} {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("%s: %d percent, want %d", tt.name, got, tt.want)
		}
	}
}

// Each collection sets the percentage anew, and GOGC is left alone.
func TestPaceGC(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "100")
	PaceGC()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d percent in spite of GOGC", got)
	}
	t.Setenv("GOGC", "")
	PaceGC()
	live := make([]byte, 256<<20)
	testkit.Eventually(t, "less than 30 percent with 256 MB alive", func() bool {
		runtime.GC()
		percent := debug.SetGCPercent(1)
		debug.SetGCPercent(percent)
		return percent < 30
	})
	runtime.KeepAlive(live)
}
