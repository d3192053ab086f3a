// SPDX-License-Identifier: Apache-2.0

//go:build packages

package deploy

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPackage installs the package on Debian's releases with systemd, upgrades it under load,
// removes and purges it. On the later release it does the same with that for Fedora.
func TestPackage(t *testing.T) {
	debs, rpms := map[string]string{}, map[string]string{}
	binaries := build(t, older, newer(t))
	for i, name := range []string{"older", "newer"} {
		debs[name] = packageOf(t, "deb", binaries, i)
		rpms[name] = packageOf(t, "rpm", binaries, i)
	}
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			c := newChassis(t, packageImage(suite))
			testPackage(t, c, debs)
			if suite == "trixie" {
				t.Run("rpm", func(t *testing.T) { testRPM(t, c.of(t), rpms) })
			}
		})
	}
}

// older is the version that is upgraded to [newer], and that comes back.
const older = "0.0.1"

// released is the folder of a release, empty if there is none. make packages-test sets it.
var released = os.Getenv("PUNTDNS_PACKAGES")

// newer is the version of the release.
func newer(t *testing.T) string {
	t.Helper()
	if released == "" {
		return "0.0.2"
	}
	version, _ := strings.CutPrefix(filepath.Base(file(t, "puntdns_*_"+runtime.GOARCH+".deb")), "puntdns_")
	version, _, _ = strings.Cut(version, "_")
	return version
}

// file returns the path of a file of the release.
func file(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(released, pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %q, %v; expected one file %s", released, all, err, pattern)
	}
	return all[0]
}

// packageOf returns the package of the older (0) or the newer version (1): that of the release, or a new one.
func packageOf(t *testing.T, format string, binaries []*built, i int) string {
	t.Helper()
	switch {
	case i == 0:
		return makePackage(t, format, older, binaries[0].binaries(t))
	case released == "":
		return makePackage(t, format, newer(t), binaries[1].binaries(t))
	case format == "deb":
		return file(t, "puntdns_*_"+runtime.GOARCH+".deb")
	}
	return file(t, "puntdns-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
}

// packageImage makes the image of an OVN chassis on a release of Debian.
func packageImage(suite string) func(t *testing.T, docker string) string {
	return func(t *testing.T, docker string) string {
		return releaseImage(t, docker, suite, "package", strings.Split(packages+",acl,ca-certificates,dnsperf,rpm", ",")...)
	}
}

// TestPackageLintian has lintian(1) judge the package that make deb makes.
func TestPackageLintian(t *testing.T) {
	lintian := need(t, "lintian")
	release := t.TempDir()
	deb := filepath.Join(release, "puntdns_1.2.3_"+runtime.GOARCH+".deb")
	if released == "" {
		command(t, "make", "-C", "..", "deb", "RELEASE="+release, "ARCHES="+runtime.GOARCH, "VERSION=1.2.3")
	} else {
		deb = file(t, "puntdns_*_"+runtime.GOARCH+".deb")
	}
	// It advises against root for the sake of those who judge what they do not trust.
	out, err := exec.Command(lintian, "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", deb).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil || text != "" {
		t.Errorf("%v\n%s", err, text)
	}
}

// releaseImage returns the image of a release of Debian with packages, of a root folder that
// test/root.sh keeps by that name.
func releaseImage(t *testing.T, docker, suite, name string, packages ...string) string {
	t.Helper()
	out, err := exec.Command("../test/root.sh", append([]string{suite, name}, packages...)...).Output()
	if err != nil {
		t.Fatalf("root.sh: %v", err)
	}
	root := strings.TrimSpace(string(out))
	recipe, err := exec.Command("stat", "--format", "%Y %n", filepath.Join(root, "etc/puntdns-root")).Output()
	if err != nil {
		t.Fatal(err)
	}
	image := fmt.Sprintf("puntdns-test-%s-%s:%.12x", name, suite, sha256.Sum256(recipe))
	if exec.Command(docker, "image", "inspect", image).Run() != nil {
		importRoot(t, docker, root, image)
	}
	return image
}

const (
	// aclOf prints the entries of the user puntdns in what Open vSwitch and OVN listen on.
	aclOf = "getfacl --absolute-names --skip-base --recursive /run/openvswitch /run/ovn | grep puntdns || true"
	// everything lists the files of the system but for what changes by itself.
	everything = "find / -xdev ( -path /proc -o -path /sys -o -path /src -o -path /var/log/journal -o -path /var/log/openvswitch" +
		" -o -path /var/log/ovn -o -path /var/cache -o -path /var/lib/rpm -o -path /var/lib/dpkg -o -path /var/lib/systemd ) -prune -o -print"
)

// elsewhere is a block for names that OVN's own DNS does not have: when puntdns does not answer for
// them, nobody does.
const elsewhere = `example {
    ofpunt br-int
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.1"
    }
}
# ours`

func testPackage(t *testing.T, c *chassis, debs map[string]string) {
	c.sh("rm -f /usr/sbin/policy-rc.d") // of test/root.sh; it forbids that packages start anything
	for name, deb := range debs {
		c.copy(deb, name+".deb")
	}
	before := c.files()

	t.Run("the installation starts nothing", func(t *testing.T) {
		c := c.of(t)
		out := c.sh("dpkg --install older.deb")
		if !strings.Contains(out, "write /etc/puntdns/Corefile") {
			t.Errorf("it does not say what comes next:\n%s", out)
		}
		if got := c.sh("systemctl is-enabled puntdns || true; systemctl is-active puntdns || true; ls -A /etc/puntdns"); got != "disabled\ninactive" {
			t.Errorf("after the installation: %s", got)
		}
		if got := c.sh(aclOf); got != "" {
			t.Errorf("access before the service was started:\n%s", got)
		}
		if out, err := c.try("systemctl start puntdns"); err == nil {
			t.Errorf("it starts without a Corefile: %s", out)
		}
		if got := c.sh("systemctl show --value --property ActiveState,NRestarts puntdns | sort"); got != "0\ninactive" {
			t.Errorf("without a Corefile: %s", got)
		}
		c.sh("man -w puntdns puntdns-ofpunt >/dev/null 2>&1 || test -e /usr/share/man/man8/puntdns.8.gz")
	})

	t.Run("the first start", func(t *testing.T) {
		c := c.of(t)
		c.configure()
		c.sh("puntdns -conf /etc/puntdns/Corefile -check; systemctl enable --now puntdns")
		c.served()
		c.eventually("systemctl show --value --property StatusText puntdns", "serving")
		c.sh("echo '{}' >/var/log/puntdns/audit.json")
	})

	t.Run("an upgrade under load", func(t *testing.T) {
		c := c.of(t)
		lost := c.load(func() { c.sh("dpkg --install newer.deb") })
		if lost > 0 {
			t.Errorf("%d queries lost, expected none", lost)
		}
		c.running(newer(t))
		if got := c.sh("tail -n 1 /etc/puntdns/Corefile"); got != "# ours" {
			t.Errorf("the Corefile ends in %q", got)
		}
		if got := c.sh("systemctl list-units --all --no-legend --plain 'puntdns*' | cut -d ' ' -f 1 | grep -v '^puntdns-sockets[.]'; ls /run/systemd/system | grep puntdns || true"); got != "puntdns.service" {
			t.Errorf("left of the hand-over: %s", got)
		}
		c.served()
		c.eventually("puntctl status >/dev/null", "")
	})

	t.Run("a restart under load", func(t *testing.T) {
		c := c.of(t)
		lost := c.load(func() {
			c.sh("systemctl restart puntdns")
			c.eventually("systemctl show --value --property StatusText puntdns", "serving")
		})
		// So the load sees what is lost.
		if lost == 0 {
			t.Errorf("a plain restart has lost %d, so the load does not see losses", lost)
		}
		t.Logf("a plain restart loses %d queries of %d/s", lost, loadRate)
		c.served()
	})

	t.Run("an upgrade that refuses the Corefile", func(t *testing.T) {
		c := c.of(t)
		c.sh("cp /etc/puntdns/Corefile /tmp/right; echo 'wrong {' >/etc/puntdns/Corefile")
		var out string
		lost := c.load(func() { out = c.sh("dpkg --install older.deb 2>&1") })
		if lost != 0 || !strings.Contains(out, "the old one goes on") || !strings.Contains(out, "/etc/puntdns/Corefile:1") {
			t.Errorf("%d queries lost, and this was said:\n%s", lost, out)
		}
		c.running(newer(t))
		c.sh("cp /tmp/right /etc/puntdns/Corefile; /usr/libexec/puntdns/restart")
		c.running(older)
		c.served()
	})

	t.Run("an upgrade with the switch away", func(t *testing.T) {
		c := c.of(t)
		c.sh("systemctl stop ovs-vswitchd")
		c.eventually("systemctl show --value --property StatusText puntdns | grep -q switch", "")
		c.sh("dpkg --install newer.deb")
		c.running(newer(t))
		c.sh("systemctl start ovs-vswitchd")
		c.plug()
		c.served()
	})

	t.Run("the removal", func(t *testing.T) {
		c := c.of(t)
		if got := c.flows(); got == "0" {
			t.Error("no flows before the removal")
		}
		if got := c.sh(aclOf); got == "" {
			t.Error("no access before the removal")
		}
		c.sh("dpkg --remove puntdns")
		if got := c.flows(); got != "0" {
			t.Errorf("%s flows after the removal", got)
		}
		if got := c.sh(aclOf); got != "" {
			t.Errorf("access after the removal:\n%s", got)
		}
		c.sh("test -e /etc/puntdns/Corefile; test -e /var/log/puntdns/audit.json; getent passwd puntdns")
	})

	t.Run("installed again", func(t *testing.T) {
		c := c.of(t)
		c.sh("dpkg --install newer.deb")
		c.served()
	})

	t.Run("the purge", func(t *testing.T) {
		c := c.of(t)
		c.sh("touch /var/lib/puntdns/feed.rpz; dpkg --purge puntdns; stat --format %U /var/lib/puntdns/feed.rpz | grep -x root; rm -r /var/lib/puntdns")
		if got := c.flows(); got != "0" {
			t.Errorf("%s flows after the purge", got)
		}
		if extra := added(before, c.files()); len(extra) > 0 {
			t.Errorf("files after the purge:\n%s", strings.Join(extra, "\n"))
		}
		if got := c.sh("getent passwd puntdns || true; getent group puntdns || true; systemctl list-unit-files --no-legend 'puntdns*' || true;" + aclOf); got != "" {
			t.Errorf("after the purge: %s", got)
		}
	})
}

// configure writes a Corefile, of the example in the package.
func (c *chassis) configure() {
	c.t.Helper()
	c.sh("sed 's,# control unix,control unix,' /usr/share/doc/puntdns/Corefile.example >/etc/puntdns/Corefile; cat >>/etc/puntdns/Corefile <<'EOF'\n" + elsewhere + "\nEOF")
}

// files lists the files of the system, see everything.
func (c *chassis) files() string {
	c.t.Helper()
	return c.sh(strings.NewReplacer("(", `\(`, ")", `\)`).Replace(everything) + " | sort")
}

// running checks the version of the process that serves.
func (c *chassis) running(want string) {
	c.t.Helper()
	if got := c.sh("/proc/$(systemctl show --value --property MainPID puntdns)/exe -version"); !strings.HasPrefix(got, "puntdns-"+want+" ") {
		c.t.Errorf("the service runs %s, want %s", got, want)
	}
}

// loadRate is how many queries the guest asks a second.
const loadRate = 500

var queriesLost = regexp.MustCompile(`Queries lost: +(\d+)`)

// load has the guest ask while f runs and for a moment before and after it, and returns how many
// queries got no answer within a second. None is asked a second time.
func (c *chassis) load(f func()) (lost int) {
	c.t.Helper()
	// It goes on asking however many are not answered.
	c.sh(`
		rm -f /tmp/lost
		echo "www.example A" >/tmp/queries
		systemd-run --quiet --collect --unit load --property StandardOutput=file:/tmp/lost --property KillSignal=SIGINT \
			ip netns exec vm dnsperf -s 169.254.169.254 -d /tmp/queries -Q ` + fmt.Sprint(loadRate) + ` -q 60000 -t 1 -l 600`)
	c.eventually("ovs-ofctl -O OpenFlow15 dump-flows br-int table=200 | grep -q 'n_packets=[1-9]' && echo asks", "asks")
	f()
	time.Sleep(2 * time.Second) // so that what is lost is counted as such
	c.sh("systemctl stop load")
	out := c.sh("cat /tmp/lost")
	m := queriesLost.FindStringSubmatch(out)
	if m == nil {
		c.t.Fatalf("no result of dnsperf:\n%s", out)
	}
	c.t.Log(strings.Join(regexp.MustCompile(`Queries \w+: +\d+`).FindAllString(out, -1), ", "))
	lost, err := strconv.Atoi(m[1])
	if err != nil {
		c.t.Fatal(err)
	}
	return lost
}
