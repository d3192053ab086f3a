// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestMode(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	r := newRig(t)
	r.open()
	info, err := os.Stat(r.path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestMayAsk(t *testing.T) {
	for _, tc := range []struct {
		uid, own uint32
		may      bool
	}{{0, 0, true}, {0, 998, true}, {998, 998, true}, {1000, 998, false}, {1000, 0, false}} {
		if err := mayAsk(tc.uid, tc.own); (err == nil) != tc.may {
			t.Errorf("user %d at the socket of user %d: %v", tc.uid, tc.own, err)
		}
	}
}

// leave makes the socket of a process that has ended.
func leave(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestStaleSocket(t *testing.T) {
	r := newRig(t)
	leave(t, r.path)
	r.open()
	if status, _ := r.get("/v1/echo"); status != 200 {
		t.Errorf("%d", status)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	leave(t, filepath.Join(dir, "left.sock"))
	for _, name := range []string{"new.sock", "left.sock"} {
		if err := Check(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refusals := ""
	for _, path := range []string{file, link, dir, filepath.Join(dir, "none", "x.sock"), "control.sock", "/" + strings.Repeat("x", 107)} {
		refusals += fmt.Sprintf("%v\n", Check(path))
	}
	golden.Check(t, refusals, dir, "DIR")
	r := newRig(t)
	if err := r.Use(file, true, quiet{t}); err == nil {
		t.Error("a file is replaced")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
}

// The socket of a process that lives is an error that names it; a first start waits for it.
func TestHeldSocket(t *testing.T) {
	first, second := newRig(t), newRig(t)
	second.path = first.path
	first.open()
	var held *HeldError
	for name, err := range map[string]error{"Use": second.Use(first.path, false, quiet{t}), "Try": second.Try(first.path)} {
		if !errors.As(err, &held) || held.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("%d (%s)", os.Getpid(), processName(t))) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := first.Try(first.path); err != nil {
		t.Errorf("its own socket: %v", err)
	}
	if err := second.Use(first.path, true, quiet{t}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Use("", false, quiet{t}) })
	if err := second.Use(first.path, false, quiet{t}); err != nil {
		t.Errorf("once more, at a reload: %v", err)
	}
	if status, _ := first.get("/v1/echo"); status != 200 {
		t.Errorf("%d from the first", status)
	}
	if err := first.Use("", false, quiet{t}); err != nil {
		t.Error(err)
	}
	// The first has ended, so the second answers now.
	testkit.Eventually(t, "the second", func() bool {
		status, _, err := getAt(second.path, "/v1/echo")
		return err == nil && status == 200
	})
}

// A reload that keeps the path keeps the connections, and one that moves or closes the socket ends
// them. One that fails changes nothing.
func TestReload(t *testing.T) {
	r := newRig(t)
	r.open()
	c := r.dial()
	other := filepath.Join(filepath.Dir(r.path), "other.sock")
	if err := r.Use(r.path, false, quiet{t}); err != nil {
		t.Error(err)
	}
	if err := r.Use(filepath.Join(r.path, "x"), false, quiet{t}); err == nil {
		t.Error("a path below a socket is taken")
	}
	fmt.Fprintf(c, "GET /v1/echo?word=still HTTP/1.1\r\nHost: x\r\n\r\n")
	b := make([]byte, 1000)
	if n, err := c.Read(b); err != nil || !strings.Contains(string(b[:n]), "200 OK") {
		t.Errorf("%q, %v", b[:n], err)
	}
	if err := r.Use(other, false, quiet{t}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket before: %v", err)
	}
	if status, _, err := getAt(other, "/v1/echo"); err != nil || status != 200 {
		t.Errorf("%d, %v", status, err)
	}
	if err := r.Use("", false, quiet{t}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket that is closed: %v", err)
	}
}

// A reload creates a socket again whose file was removed, and leaves the socket of another process.
func TestRemovedFile(t *testing.T) {
	r := newRig(t)
	r.open()
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.open()
	if status, _ := r.get("/v1/echo"); status != 200 {
		t.Errorf("%d", status)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	another := newRig(t)
	another.path = r.path
	another.open()
	if err := r.Use("", false, quiet{t}); err != nil {
		t.Error(err)
	}
	if status, _ := another.get("/v1/echo"); status != 200 {
		t.Errorf("%d", status)
	}
}

// processName is what the kernel calls the process of the test.
func processName(t *testing.T) string {
	t.Helper()
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(name))
}
