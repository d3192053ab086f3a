// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	if want := regexp.MustCompile(`^puntdns 1\.2\.3-test Apache-2\.0 AND .* MPL-2\.0 https://github\.com/puntdns/puntdns$`); !want.MatchString(labels) {
		t.Errorf("labels: %q, want %s", labels, want)
	}
	imageFiles(t, docker, image)

	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddRouter("r", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}})
	l.AddDNS(map[string]string{"db.internal": "10.0.0.9"}, "red")
	vm := l.Node.AddGuest(lab.Guest{Name: "red-vm1", Switch: "red", MAC: "02:00:00:00:00:11",
		Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"), Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"),
		PortSecurity: true, Hostname: "vm1"})
	southbound := l.Gate("unix:" + filepath.Join(l.Dir, "sbgate.sock"))
	southbound.Open(l.SB)
	admit(t, l, southbound.Endpoint)

	// Mounted at the default place.
	path := l.WriteFile("Corefile", corefile(l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        control unix:/run/puntdns/control.sock
    }
    errors
    ovnhosts {
        southbound `+southbound.Endpoint+`
    }
}`))
	cidfile := filepath.Join(t.TempDir(), "cid")
	// With the lab's mark in its environment the container ends with the lab,
	// even if this process is killed.
	options := []string{"--cap-drop ALL", "--security-opt no-new-privileges", "--read-only"}
	// Where the control socket is, for the health check.
	const tmpfs = "/run/puntdns:mode=0750,uid=%[1]s,gid=%[1]s"
	guide := readFile(t, "../docs/operation.md")
	for _, option := range append(slices.Clone(options), fmt.Sprintf(tmpfs, "$(id -u puntdns)")[:30]) {
		if !strings.Contains(guide, option) {
			t.Errorf("the container in docs/operation.md has no %s", option)
		}
	}
	bare := append(strings.Fields(strings.Join(options, " ")), "--tmpfs", fmt.Sprintf(tmpfs, strconv.Itoa(imageUser)), "--health-interval", "500ms", "--health-retries", "1")
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
	healthy(t, l, docker, cid, southbound)
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
	release := t.TempDir()
	binary := filepath.Join(release, runtime.GOARCH, "puntdns")
	// The flags of the Makefile, whose packages are in the build cache then.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=1.2.3-test", "-o", binary, "../cmd/puntdns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	licences := exec.Command("go", "run", "-C", "../deploy", "./licences", "-out", filepath.Join(release, "licences", runtime.GOARCH), binary)
	if out, err := licences.CombinedOutput(); err != nil {
		t.Fatalf("licences: %v\n%s", err, out)
	}
	image := "puntdns-test:" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		if out, err := exec.Command(docker, "rmi", image).CombinedOutput(); err != nil {
			t.Errorf("removing the image: %v\n%s", err, out)
		}
	})
	script := `
		go build -C ../deploy -o "$1/image" ./image
		cd ../deploy
		"$1/image" roots >"$1/ca-certificates.crt"
		"$1/image" archive -arch "$2" -version 1.2.3-test -name "$3" -out "$1/image.tar" "$1"
		"$4" load --input "$1/image.tar"`
	cmd := exec.Command("sh", "-euc", script, "sh", release, runtime.GOARCH, image, docker)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "SOURCE_DATE_EPOCH=1700000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the image: %v\n%s", err, out)
	}
	return image
}

// imageFiles looks at what the image has.
func imageFiles(t *testing.T, docker, image string) {
	t.Helper()
	cid := runEngine(t, docker, "create", "--network", "none", image)
	out, err := exec.CommandContext(within(t, wait), "sh", "-c", `"$1" export "$2" | tar -t`, "sh", docker, cid).Output()
	runEngine(t, docker, "rm", cid)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"puntdns", "puntctl", "etc/puntdns/Corefile", "etc/ssl/certs/ca-certificates.crt",
		"licenses/LICENSE", "licenses/THIRD-PARTY-LICENSES", "licenses/ca-certificates",
	} {
		if !slices.Contains(strings.Fields(string(out)), want) {
			t.Errorf("the image has no %s:\n%s", want, out)
		}
	}
	size, err := strconv.Atoi(runEngine(t, docker, "inspect", "--format", "{{.Size}}", image))
	if err != nil || size >= maxImageSize {
		t.Errorf("the image has %d bytes, expected fewer than %d; %v", size, maxImageSize, err)
	}
}

// maxImageSize is in bytes, uncompressed. It finds what was linked by accident: what was written on purpose
// adds some 0.3 MB at a time.
const maxImageSize = 37_000_000

// healthy waits for what the engine says of the health of a container, while a database is away and
// when it is back.
func healthy(t *testing.T, l *lab.Lab, docker, cid string, southbound *lab.Gate) {
	t.Helper()
	is := func(want string) {
		t.Helper()
		l.Eventually("a container that is "+want, func() error {
			if got := runEngine(t, docker, "inspect", "--format", "{{.State.Health.Status}} {{json .State.Health.Log}}", cid); !strings.HasPrefix(got, want+" ") {
				return errors.New(got)
			}
			return nil
		})
	}
	is("healthy")
	southbound.Close()
	is("unhealthy")
	southbound.Open(l.SB)
	is("healthy")
	if got := runEngine(t, docker, "exec", cid, "/puntctl", "status"); !strings.HasPrefix(got, "well\n") {
		t.Errorf("puntctl status says\n%s", got)
	}
}

// admit lets the user of the image connect where it has to.
func admit(t *testing.T, l *lab.Lab, more ...string) {
	t.Helper()
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range append([]string{l.SB, l.Node.OVSDB, l.Node.OpenFlow}, more...) {
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
