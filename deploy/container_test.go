// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// container is a Debian with systemd as its init, and Debian's own units of Open vSwitch
// and OVN.
type container struct {
	t      *testing.T
	docker string
	id     string
}

// packages are what the container has beside a minimal Debian.
const packages = "systemd,systemd-sysv,dbus,openvswitch-switch,ovn-central,ovn-host,bind9-dnsutils,iproute2,procps"

// capabilities are what systemd and the daemons need. With --privileged the engine
// would ask for all, which it may not have itself.
var capabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD",
	"NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_CHROOT",
	"SYS_NICE", "SYS_PTRACE",
}

// bootContainer starts one and waits until systemd has started everything. image makes the image
// where there is none.
func bootContainer(t *testing.T, image func(t *testing.T, docker string) string) *container {
	t.Helper()
	docker := need(t, "docker")
	if out, err := exec.Command(docker, "info").CombinedOutput(); err != nil {
		lab.Lack(t, "no container engine answers: %v\n%s", err, out)
	}
	args := []string{
		// systemd(1) halts at this signal, and docker's restart is a reboot then.
		"run", "--detach", "--stop-signal", "SIGRTMIN+3", "--network", "none", "--device", "/dev/net/tun", "--cgroupns", "private",
		"--tmpfs", "/run:exec,mode=755", "--tmpfs", "/run/lock", "--tmpfs", "/tmp",
		"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--cap-drop", "ALL",
	}
	for _, c := range capabilities {
		args = append(args, "--cap-add", c)
	}
	c := &container{t: t, docker: docker}
	c.id = c.engine(append(args, image(t, docker), "/sbin/init")...)
	t.Cleanup(func() { c.engine("rm", "--force", "--volumes", c.id) })
	c.booted()
	return c
}

// chassisImage returns the image of a Debian 12, which it makes where there is none: that takes
// a minute.
func chassisImage(t *testing.T, docker string) string {
	t.Helper()
	image := fmt.Sprintf("puntdns-test-chassis:%x", sha256.Sum256([]byte(packages)))[:40]
	if exec.Command(docker, "image", "inspect", image).Run() == nil {
		return image
	}
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command(need(t, "debootstrap"), "--variant=minbase", "--include="+packages, "bookworm", root).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, out)
	}
	importRoot(t, docker, root, image)
	return image
}

// importRoot makes an image of a root folder.
func importRoot(t *testing.T, docker, root, image string) {
	t.Helper()
	script := `tar -C "$1" --exclude=./dev --exclude=./var/cache/apt/archives -c . | "$2" import - "$3"`
	if out, err := exec.Command("sh", "-c", script, "sh", root, docker, image).CombinedOutput(); err != nil {
		t.Fatalf("importing the image: %v\n%s", err, out)
	}
}

// engine runs a command of the container engine and returns what it prints.
func (c *container) engine(args ...string) string {
	c.t.Helper()
	out, err := exec.Command(c.docker, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// try runs a shell script in the container, which ends at its first failing command.
func (c *container) try(script string) (string, error) {
	out, err := exec.Command(c.docker, "exec", "--workdir", "/src", c.id, "sh", "-euc", script).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// sh is try for a script that has to succeed.
func (c *container) sh(script string) string {
	c.t.Helper()
	out, err := c.try(script)
	if err != nil {
		c.t.Fatalf("%s\n%v\n%s\n%s", script, err, out, c.journal())
	}
	return out
}

// journal is what puntdns has logged.
func (c *container) journal() string {
	out, _ := c.try("journalctl --no-pager --unit puntdns --lines 50; systemctl --no-pager --failed") // for a message only
	return out
}

// eventually waits until the script succeeds and prints want.
func (c *container) eventually(script, want string) {
	c.t.Helper()
	var out string
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if out, err = c.try(script); err == nil && out == want {
			return
		}
	}
	c.t.Fatalf("%s\nexpected %q, got %q, %v\n%s", script, want, out, err, c.journal())
}

// booted waits until systemd has started what is enabled.
func (c *container) booted() {
	c.t.Helper()
	c.engine("exec", c.id, "mkdir", "-p", "/src")
	c.eventually("systemctl is-system-running || true", "running")
}

// reboot stops systemd and all that it runs, and starts it again: what is in the
// container's files stays, /run and the processes are new.
func (c *container) reboot() {
	c.t.Helper()
	c.engine("restart", "--time", "30", c.id)
	c.booted()
}

// copy puts a file of the project into the container's /src.
func (c *container) copy(file, to string) {
	c.t.Helper()
	c.sh("mkdir -p " + filepath.Dir("/src/"+to))
	c.engine("cp", file, c.id+":/src/"+to)
}

// steps are the commands that stand below a heading of puntdns.service.
func steps(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("puntdns.service")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "# "+heading)
	if !ok {
		t.Fatalf("puntdns.service has no heading %q", heading)
	}
	var commands strings.Builder
	for line := range strings.Lines(rest) {
		if command, ok := strings.CutPrefix(line, "#   "); ok {
			commands.WriteString(command)
		} else if commands.Len() > 0 {
			break
		}
	}
	return commands.String()
}
