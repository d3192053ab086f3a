// SPDX-License-Identifier: Apache-2.0

package saved_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn/saved"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func example(t testing.TB) *saved.File {
	t.Helper()
	id, err := ovsdb.ParseUUID("00112233-4455-6677-8899-aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	return &saved.File{
		Saved: time.Unix(1_700_000_000, 0).UTC(), Boot: "b", Uptime: time.Hour, Config: "c", Chassis: "hv1",
		Databases: []saved.Database{{
			Name: "OVN_Southbound", Columns: map[string][]string{"Chassis": {"name", "x"}, "DNS": {"records"}},
			Position:   ovsdb.Position{Last: id, Columns: map[string][]string{"Chassis": {"name"}}, Where: map[string]jsonText{"Chassis": jsonText(`[true]`)}, Cluster: id, Index: 7},
			Conditions: jsonText(`{}`),
			// One column of one atom: index 1, width 1, one element, "hv1", 0.
			Rows: map[string]map[ovsdb.UUID][]byte{"Chassis": {id: []byte("\x01\x01\x01\x03hv1\x00\x00")}, "DNS": {}},
		}},
	}
}

func TestRoundTrip(t *testing.T) {
	want := example(t)
	b, err := saved.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f")
	for range 2 { // the second one replaces the first
		if err := saved.Write(path, b); err != nil {
			t.Fatal(err)
		}
	}
	got, err := saved.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := saved.Write(filepath.Join(path, "below"), b); err == nil {
		t.Error("a file below a file")
	}
	if _, err := saved.Read(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever byte of a file is another one, or where it ends: it is refused.
func TestDamaged(t *testing.T) {
	good, err := saved.Encode(example(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x40
		if _, err := saved.Decode(b); err == nil {
			t.Errorf("byte %d", i)
		}
		if _, err := saved.Decode(good[:i]); err == nil {
			t.Errorf("%d bytes", i)
		}
	}
	if _, err := saved.Decode(append(bytes.Clone(good), 0)); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a byte more: %v", err)
	}
}

func TestSweep(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{"ovn-old": 2 * time.Hour, "ovn-new": time.Minute, "other": 2 * time.Hour} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	saved.Sweep(folder, "ovn-")
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "other" || filepath.Base(left[1]) != "ovn-new" {
		t.Errorf("%v, %v", left, err)
	}
}
