// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dialTimes in the environment has this test binary dial the socket several times, and print the errors.
const dialTimes = "PUNTDNS_TEST_DIAL_AGAIN"

// A process that may not write to a socket asks systemd for access once, and connects when it has access. The
// test gives access instead of systemd.
func TestEnsureAccess(t *testing.T) {
	const user = 64123
	if path := os.Getenv(dialTimes); path != "" {
		for range 3 {
			c, err := Endpoint{Network: "unix", Address: path}.Dial(t.Context(), nil)
			if err == nil {
				c.Close()
			}
			t.Logf("dialled: %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("expected root, to act as another user")
	}
	dir, self := runnableByOthers(t)
	socket, runtime := filepath.Join(dir, "sock"), filepath.Join(dir, "run")
	if err := errors.Join(os.Mkdir(runtime, 0o755), os.Chown(runtime, user, user)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		mode    os.FileMode
		unit    bool // the process is in a unit
		given   bool // access is given when it is asked for
		asks    int
		refused int
	}{
		{"it may", 0o777, true, false, 0, 0},
		{"access is given", 0o750, true, true, 1, 0},
		{"no access is given", 0o750, true, false, 1, 3},
		{"outside of a unit", 0o750, false, false, 0, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := os.Chmod(socket, tt.mode); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "-test.run", "^TestEnsureAccess$", "-test.v")
			cmd.Env = append(os.Environ(), dialTimes+"="+socket)
			if tt.unit {
				cmd.Env = append(cmd.Env, "RUNTIME_DIRECTORY="+runtime)
			}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
			ended, asks := make(chan struct{}), make(chan int)
			go func() { // as puntdns-sockets.service
				n := 0
				defer func() { asks <- n }()
				for {
					if os.Remove(filepath.Join(runtime, RefusedFile)) == nil {
						if n++; tt.given {
							_ = os.Chmod(socket, 0o777)
						}
						continue
					}
					select {
					case <-ended:
						return
					case <-time.After(time.Millisecond):
					}
				}
			}()
			out, err := cmd.CombinedOutput()
			close(ended)
			if n := <-asks; err != nil || n != tt.asks || strings.Count(string(out), "permission denied") != tt.refused {
				t.Errorf("%v, it has asked %d times, want %d, and should be refused %d times:\n%s", err, n, tt.asks, tt.refused, out)
			}
		})
	}
}
