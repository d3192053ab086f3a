// SPDX-License-Identifier: Apache-2.0

package saved_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// ReadHead does not read the rows, so it takes a file whose rows are damaged. It refuses others as Read does.
func TestReadHead(t *testing.T) {
	want := example(t)
	good, err := saved.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	want.Databases[0].Rows = nil
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	path := filepath.Join(t.TempDir(), "f")
	for _, tt := range []struct {
		name string
		b    []byte
		mode os.FileMode
		want string // part of the error
	}{
		{"good", good, 0o600, ""},
		{"damaged rows", damaged, 0o600, ""},
		{"empty", nil, 0o600, "no saved snapshot"},
		{"shorter than its head", good[:20], 0o600, "truncated"},
		{"truncated", good[:len(good)-1], 0o600, "truncated"},
		{"readable by others", good, 0o644, "0600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.WriteFile(path, tt.b, tt.mode), os.Chmod(path, tt.mode)); err != nil {
				t.Fatal(err)
			}
			got, err := saved.ReadHead(path)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is known of a folder without a write is what a write then meets.
func TestCheckFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, folder, want string }{
		{"a folder", dir, ""},
		{"a missing one", filepath.Join(dir, "missing"), filepath.Join(dir, "missing") + ": no such file or directory"},
		{"a file", file, file + ": not a folder"},
		{"below a file", filepath.Join(file, "below"), filepath.Join(file, "below") + ": not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := saved.CheckFolder(tt.folder); err != nil {
				got = err.Error()
			}
			if probed := saved.Probe(tt.folder); got != tt.want || (probed != nil) != (got != "") {
				t.Errorf("%q, want %q; a write: %v", got, tt.want, probed)
			}
		})
	}
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o555), os.Chmod(filepath.Dir(dir), 0o755)); err != nil { // MkdirTemp's is 0700
		t.Fatal(err)
	}
	user, result := os.Geteuid(), make(chan error, 2)
	go func() {
		// No other goroutine gets a thread that has become another user: it ends with this one.
		runtime.LockOSThread()
		if user == 0 {
			user = 64123
			if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); e != 0 {
				t.Error(e)
			}
		}
		result <- saved.Probe(closed)
		result <- saved.CheckFolder(closed)
	}()
	probed, err := <-result, <-result
	if want := fmt.Sprintf("%s: permission denied for user %d", closed, user); probed == nil || err == nil || err.Error() != want {
		t.Errorf("%v, want %q; a write: %v", err, want, probed)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
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
