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
)

// dialPath in the environment has this test binary dial the socket and print the error.
const dialPath = "PUNTDNS_TEST_DIAL"

// runnableByOthers returns a folder that is open to other users, and a copy of this binary there: t.TempDir
// and the folder of the binary are closed to them.
func runnableByOthers(t *testing.T) (dir, self string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "endpoint")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self = filepath.Join(dir, "self")
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(self, binary, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir, self
}

func TestExplainPermission(t *testing.T) {
	if path := os.Getenv(dialPath); path != "" {
		_, err := Endpoint{Network: "unix", Address: path}.Dial(t.Context(), nil)
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Fatal("expected root, to act as another user")
	}
	dir, self := runnableByOthers(t)
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path string
		mode       os.FileMode
		want       []string
	}{
		{"the socket", "sock", 0o750, []string{"permission denied", "Srwxr-x--- of root:root", "user 64123 may not write it", "setfacl -m u:64123:rw,m::rw " + dir + "/sock"}},
		{"a folder", "closed/sock", 0o777, []string{"permission denied", "user 64123 may not enter a folder of the path"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.path)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "-test.run", "^TestExplainPermission$")
			cmd.Env = append(os.Environ(), dialPath+"="+path)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64123, Gid: 64123}}
			out, _ := cmd.CombinedOutput() // a test that fails
			for _, w := range tt.want {
				if !strings.Contains(string(out), w) {
					t.Errorf("expected %q in\n%s", w, out)
				}
			}
		})
	}
	other := errors.New("connection refused")
	if err := (Endpoint{Network: "unix", Address: dir}).ExplainPermission(other); err != other {
		t.Errorf("another error: %v", err)
	}
}
