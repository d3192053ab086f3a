// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// imageUser is the user and group of the container image.
const imageUser = 65532

// TestImage builds the container image, and lets it serve a guest as it would on
// a chassis: not as root, without capabilities and without a network.
func TestImage(t *testing.T) {
	t.Parallel()
	docker := engine(t)
	image := buildImage(t, docker)

	version := runEngine(t, docker, "run", "--rm", "--network", "none", image, "-version")
	if want := "puntdns-1.2.3-test (CoreDNS-"; !strings.HasPrefix(version, want) {
		t.Errorf("-version says %q, want %q at its beginning", version, want)
	}
	labels := runEngine(t, docker, "inspect", "--format",
		`{{index .Config.Labels "org.opencontainers.image.title"}} {{index .Config.Labels "org.opencontainers.image.version"}} `+
			`{{index .Config.Labels "org.opencontainers.image.licenses"}} {{index .Config.Labels "org.opencontainers.image.source"}}`, image)
	if want := "puntdns 1.2.3-test Apache-2.0 https://github.com/puntdns/puntdns"; labels != want {
		t.Errorf("labels: %q, want %q", labels, want)
	}

	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddRouter("r", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}})
	l.AddDNS(map[string]string{"db.internal": "10.0.0.9"}, "red")
	vm := l.Node.AddGuest(lab.Guest{Name: "red-vm1", Switch: "red", MAC: "02:00:00:00:00:11",
		Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"), Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"),
		PortSecurity: true, Hostname: "vm1"})
	admit(t, l)

	// Mounted at the default place.
	path := l.WriteFile("Corefile", corefile(l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    errors
    ovnhosts {
        southbound $SB
    }
}`))
	cidfile := filepath.Join(t.TempDir(), "cid")
	// With the lab's mark in its environment the container ends with the lab,
	// even if this process is killed.
	guide, err := os.ReadFile("../docs/operation.md")
	if err != nil {
		t.Fatal(err)
	}
	bare := []string{"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"}
	if text := strings.Join(bare, " "); !strings.Contains(string(guide), text) {
		t.Errorf("the container in docs/operation.md has no %s", text)
	}
	p := l.Node.Start("container", nil, slices.Concat([]string{docker, "run", "--rm", "--cidfile", cidfile, "--network", "none"}, bare, []string{
		"--env", "PUNTDNS_LAB", "--volume", l.Dir + ":" + l.Dir, "--volume", path + ":/etc/puntdns/Corefile:ro", image,
	})...)

	l.Eventually("an answer from the container", func() error {
		select {
		case <-p.Done():
			t.Fatalf("the container has ended:\n%s", p.Log())
		default:
		}
		if r := vm.Dig("db.internal", "@169.254.169.254", "+time=1"); r.String() != "NOERROR 10.0.0.9" {
			return fmt.Errorf("%v", r)
		}
		return nil
	})
	if r := vm.Dig("vm1", "AAAA", "@fd00::254"); r.String() != "NOERROR fd00:10::11" {
		t.Errorf("vm1 AAAA: %v\n%s", r, r.Out)
	}

	b, err := os.ReadFile(cidfile)
	if err != nil {
		t.Fatal(err)
	}
	cid := string(b)
	pid := runEngine(t, docker, "inspect", "--format", "{{.State.Pid}}", cid)
	privileges(t, pid)
	noInternetSockets(t, pid)

	runEngine(t, docker, "stop", "--time", "20", cid)
	if err := p.Wait(within(t, wait)); err != nil {
		t.Errorf("after stop: %v\n%s", err, p.Log())
	}
	if flows := l.Node.OFCTL("dump-flows", "br-int", "cookie=0x70646e0000000000/0xffffff0000000000"); strings.Contains(flows, "cookie=") {
		t.Errorf("flows are left after stop:\n%s", flows)
	}
}

// engine returns the container engine that answers: $DOCKER, docker or podman.
func engine(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("DOCKER"), "docker", "podman"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(within(t, wait), path, "info").CombinedOutput()
		if err != nil {
			lab.Lack(t, "no container engine answers: %s info: %v: %s", path, err, out)
		}
		return path
	}
	lab.Lack(t, "no container engine is installed: neither docker nor podman")
	return ""
}

// runEngine returns what the engine printed, without the last newline.
func runEngine(t *testing.T, docker string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(within(t, 2*wait), docker, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", docker, strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// buildImage builds the image under a name of its own, removed by t.Cleanup, and
// returns the name.
func buildImage(t *testing.T, docker string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "puntdns")
	// The flags of the Makefile, whose packages are in the build cache then.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=1.2.3-test", "-o", binary, "../cmd/puntdns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	image := "puntdns-test:" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		if out, err := exec.Command(docker, "rmi", image).CombinedOutput(); err != nil {
			t.Errorf("removing the image: %v\n%s", err, out)
		}
	})
	cmd := exec.Command("../deploy/image.sh", filepath.Dir(binary), image, "1.2.3-test", runtime.GOARCH)
	cmd.Env = append(os.Environ(), "DOCKER="+docker)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("image.sh: %v\n%s", err, out)
	}
	return image
}

// admit lets the user of the image connect where it has to.
func admit(t *testing.T, l *lab.Lab) {
	t.Helper()
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{l.SB, l.Node.OVSDB, l.Node.OpenFlow} {
		if err := os.Chown(strings.TrimPrefix(endpoint, "unix:"), imageUser, imageUser); err != nil {
			t.Fatal(err)
		}
	}
}

// privileges looks whether a process is the user of the image, in no other group
// and without capabilities.
func privileges(t *testing.T, pid string) {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		have[key] = strings.Join(strings.Fields(value), " ")
	}
	id := strconv.Itoa(imageUser)
	ids := strings.Join([]string{id, id, id, id}, " ")
	for key, want := range map[string]string{"Uid": ids, "Gid": ids, "CapEff": "0000000000000000", "CapBnd": "0000000000000000"} {
		if have[key] != want {
			t.Errorf("%s of the process: %q, want %q", key, have[key], want)
		}
	}
}

// noInternetSockets looks whether a process has no Internet socket at all.
func noInternetSockets(t *testing.T, pid string) {
	t.Helper()
	for _, proto := range []string{"udp", "udp6", "tcp", "tcp6", "raw", "raw6"} {
		b, err := os.ReadFile("/proc/" + pid + "/net/" + proto)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n > 1 {
			t.Errorf("open %s sockets:\n%s", proto, b)
		}
	}
}
