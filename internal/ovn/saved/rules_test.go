// SPDX-License-Identifier: Apache-2.0

package saved_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/saved"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func TestCheck(t *testing.T) {
	databases := func(name, column string) []saved.Database {
		return []saved.Database{{Name: name, Columns: map[string][]string{"DNS": {column}}}}
	}
	e := saved.Expected{Config: "c", Boot: "b", MaxAge: time.Hour, Databases: databases("sb", "records")}
	for _, tt := range []struct {
		name string
		file saved.File
		want string
	}{
		{"good", saved.File{Config: "c", Boot: "b", Uptime: time.Hour, Databases: databases("sb", "records")}, ""},
		{"another configuration", saved.File{Config: "x", Boot: "b", Uptime: time.Hour}, "configuration"},
		{"another boot", saved.File{Config: "c", Boot: "x", Uptime: time.Hour}, "booted"},
		{"old", saved.File{Config: "c", Boot: "b", Uptime: time.Hour - 1}, "old"},
		{"from the future", saved.File{Config: "c", Boot: "b", Uptime: 3 * time.Hour}, "old"},
		{"no database", saved.File{Config: "c", Boot: "b", Uptime: time.Hour}, "databases"},
		{"another database", saved.File{Config: "c", Boot: "b", Uptime: time.Hour, Databases: databases("nb", "records")}, "tables"},
		{"another column", saved.File{Config: "c", Boot: "b", Uptime: time.Hour, Databases: databases("sb", "options")}, "columns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := e.Check(&tt.file, 2*time.Hour)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestIsDue(t *testing.T) {
	e := saved.Expected{MaxAge: time.Hour}
	for _, tt := range []struct {
		name            string
		uptime, written time.Duration
		changed, last   bool
		want            bool
	}{
		{"nothing new", time.Hour, time.Hour, false, false, false},
		{"only the time", time.Hour + time.Minute, time.Hour, false, false, false},
		{"a quarter of the age", time.Hour + 15*time.Minute, time.Hour, false, false, true},
		{"a change", time.Hour, time.Hour, true, false, true},
		{"the end", time.Hour + 1, time.Hour, false, true, true},
		{"the end, just written", time.Hour, time.Hour, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.IsDue(tt.uptime, tt.written, tt.changed, tt.last); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestInterval(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: 20 * time.Second} {
		if got := saved.Interval(took); got != want {
			t.Errorf("after a write of %s: %s, want %s", took, got, want)
		}
	}
}

// A newer file is found without its rows, which may be many: here they can't be read.
func TestIsSuperseded(t *testing.T) {
	t.Parallel()
	f := &saved.File{Uptime: 2, Databases: []saved.Database{{Columns: map[string][]string{"DNS": {}}, Rows: map[string]map[ovsdb.UUID][]byte{"DNS": {}}}}}
	b, err := saved.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	path := filepath.Join(t.TempDir(), "f")
	if err := saved.Write(path, b); err != nil {
		t.Fatal(err)
	}
	for uptime, want := range map[time.Duration]bool{1: true, 2: false, 3: false} {
		if got := saved.IsSuperseded(&saved.File{Uptime: uptime}, path); got != want {
			t.Errorf("%d beside 2: %v", uptime, got)
		}
	}
}
