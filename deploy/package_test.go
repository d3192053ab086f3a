// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/puntdns/puntdns/test/pages"
)

// goProgram is the command of a program in Go, of the version in the Makefile's variable.
func goProgram(t *testing.T, variable string) string {
	t.Helper()
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if module, ok := strings.CutPrefix(line, variable+" := "); ok {
			return "go run " + strings.TrimSpace(module)
		}
	}
	t.Fatalf("the Makefile has no %s", variable)
	return ""
}

// makePackage makes a package of the program in a folder, and returns its path. Its licences are in
// the folder, or found out.
func makePackage(t *testing.T, format, version, programs string) string {
	t.Helper()
	dir := t.TempDir()
	script := `
		mkdir -p "$2/$3" "$2/licences"
		cp "$1/puntdns" "$2/$3/"
		if [ -e "$1/licences" ]; then
			cp -R "$1/licences" "$2/licences/$3"
		else
			go run ./licences -out "$2/licences/$3" "$1/puntdns"
		fi
		cp -R "$6" "$2/share"
		exec ./package/package.sh "$4" "$3" "$5" "$2"`
	cmd := exec.Command("sh", "-euc", script, "sh", programs, dir, runtime.GOARCH, format, version, manual(t))
	cmd.Env = append(os.Environ(), "NFPM="+goProgram(t, "NFPM"), "SOURCE_DATE_EPOCH="+manualEpoch)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("package.sh: %v\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// command returns what a program prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// everywhere are the files of both packages, but for the pages of the documentation and the manual pages.
var everywhere = []string{
	"-rw-r--r-- /usr/lib/systemd/system/puntdns-sockets.path",
	"-rw-r--r-- /usr/lib/systemd/system/puntdns-sockets.service",
	"-rw-r--r-- /usr/lib/systemd/system/puntdns.service",
	"-rw-r--r-- /usr/lib/sysusers.d/puntdns.conf",
	"-rw-r--r-- /usr/lib/tmpfiles.d/puntdns.conf",
	"-rw-r--r-- /usr/share/bash-completion/completions/puntctl",
	"-rw-r--r-- /usr/share/doc/puntdns/CHANGELOG.md",
	"-rw-r--r-- /usr/share/doc/puntdns/Corefile.example",
	"-rw-r--r-- /usr/share/doc/puntdns/README.md",
	"-rw-r--r-- /usr/share/doc/puntdns/grafana/fleet.json",
	"-rw-r--r-- /usr/share/doc/puntdns/grafana/node.json",
	"-rw-r--r-- /usr/share/doc/puntdns/prometheus/puntdns.rules.yaml",
	"-rw-r--r-- /usr/share/fish/vendor_completions.d/puntctl.fish",
	"-rwxr-xr-x /usr/bin/puntdns",
	"-rwxr-xr-x /usr/libexec/puntdns/restart",
	"-rwxr-xr-x /usr/libexec/puntdns/revoke",
	"drwxr-xr-x /etc/puntdns",
	"drwxr-xr-x /usr/libexec/puntdns",
	"drwxr-xr-x /usr/share/doc/puntdns",
	"drwxr-xr-x /usr/share/doc/puntdns/grafana",
	"drwxr-xr-x /usr/share/doc/puntdns/prometheus",
}

// checkFiles compares the files of a package, as "MODE PATH", with everywhere and more.
func checkFiles(t *testing.T, got []string, more ...string) {
	t.Helper()
	want := append(slices.Clone(everywhere), more...)
	for _, page := range manualPages(t) {
		want = append(want, "-rw-r--r-- /usr/share/man/"+page+".gz")
	}
	slices.Sort(want)
	page := regexp.MustCompile(`^(drwxr-xr-x|-rw-r--r--) /usr/share/doc/puntdns/(docs(/[A-Za-z0-9.-]+\.(md|svg))?|plugin|(ofpunt|plugin/[a-z]+)(/README\.md)?)$`)
	got = slices.DeleteFunc(got, page.MatchString)
	slices.Sort(got)
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("it has %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("it lacks %s", line)
		}
	}
}

// checkLinks wants each page of the repository that operators read below a folder, and each link of these
// to lead to a file and a heading there, or out of it.
func checkLinks(t *testing.T, folder string) {
	t.Helper()
	all, err := pages.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]map[string]string{}
	for _, p := range all {
		sections[p.Path] = p.Sections
	}
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "docs/*.md", "ofpunt/README.md", "plugin/*/README.md"} {
		want, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(want) == 0 {
			t.Fatalf("%s: no pages: %v", pattern, err)
		}
		for _, page := range want {
			if sections[strings.TrimPrefix(page, "../")] == nil {
				t.Errorf("it lacks %s", page)
			}
		}
	}
	for _, p := range all {
		for _, l := range p.Links {
			file, anchor, _ := strings.Cut(l.To, "#")
			if ours, ok := strings.CutPrefix(file, "https://github.com/puntdns/puntdns/blob/main/"); ok {
				if _, err := os.Stat(filepath.Join("..", ours)); err != nil {
					t.Errorf("%s:%d: the repository has no file for the link %s", p.Path, l.Line, l.To)
				}
				continue
			}
			if strings.Contains(file, ":") || file == "" {
				continue
			}
			file = path.Join(path.Dir(p.Path), file)
			_, has := sections[file][anchor]
			switch _, err := os.Stat(filepath.Join(folder, file)); {
			case err != nil:
				t.Errorf("%s:%d: the package has no file for the link %s", p.Path, l.Line, l.To)
			case anchor != "" && !has:
				t.Errorf("%s:%d: %s has no heading for the link %s", p.Path, l.Line, file, l.To)
			}
		}
	}
}

// script is a folder with a program that stands for the binary, and its licences.
func script(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "licences"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"puntdns": "#!/bin/sh\n", "licences/SPDX": "Apache-2.0 AND MIT\n",
		"licences/THIRD-PARTY-LICENSES": "all of them\n", "licences/THIRD-PARTY-LICENSES.debian": "those of others\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPackageDeb reads a package for Debian.
func TestPackageDeb(t *testing.T) {
	need(t, "dpkg-deb")
	deb := makePackage(t, "deb", "v1.2.3", script(t))
	var files []string
	for line := range strings.Lines(command(t, "env", "TZ=UTC", "dpkg-deb", "--contents", deb)) {
		f := strings.Fields(line)
		mode, owner, path := f[0], f[1], strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/")
		if owner != "root/root" {
			t.Errorf("%s belongs to %s", path, owner)
		}
		if at := f[3] + " " + f[4]; at != "2023-11-14 22:13" {
			t.Errorf("%s is of %s", path, at)
		}
		// The folders above those of the package come with it.
		if !strings.HasPrefix(mode, "d") || strings.Contains(path, "/puntdns") {
			files = append(files, mode+" "+path)
		}
		if strings.HasPrefix(mode, "d") && mode != "drwxr-xr-x" {
			t.Errorf("%s is %s", path, mode)
		}
	}
	more := []string{"lrwxrwxrwx /usr/bin/puntctl", "-rw-r--r-- /usr/share/doc/puntdns/copyright", "-rw-r--r-- /usr/share/doc/puntdns/changelog.gz",
		"-rw-r--r-- /usr/share/lintian/overrides/puntdns", "-rw-r--r-- /usr/share/zsh/vendor-completions/_puntctl"}
	checkFiles(t, files, more...)

	root := t.TempDir()
	command(t, "dpkg-deb", "--raw-extract", deb, root)
	for _, name := range []string{"preinst", "conffiles"} {
		if _, err := os.Stat(filepath.Join(root, "DEBIAN", name)); err == nil {
			t.Errorf("it has a %s", name)
		}
	}
	for field, want := range map[string]string{
		"Package": "puntdns", "Version": "1.2.3", "Architecture": runtime.GOARCH, "Depends": "systemd, acl",
	} {
		if got := strings.TrimSpace(command(t, "dpkg-deb", "--field", deb, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	checkLinks(t, filepath.Join(root, "usr/share/doc/puntdns"))
	copyright, err := os.ReadFile(filepath.Join(root, "usr/share/doc/puntdns/copyright"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(copyright, []byte("/usr/share/common-licenses/Apache-2.0.\n")) || !bytes.HasSuffix(copyright, []byte("\nthose of others\n")) {
		t.Errorf("copyright:\n%s", copyright)
	}
	if target, err := os.Readlink(filepath.Join(root, "usr/bin/puntctl")); target != "puntdns" {
		t.Errorf("puntctl leads to %q, %v", target, err)
	}
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/puntdns.service"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(unit, []byte("[Unit]\n")) || bytes.Contains(unit, []byte("/usr/local/")) ||
		!bytes.Contains(unit, []byte("\nExecStart=/usr/bin/puntdns -conf /etc/puntdns/Corefile\n")) {
		t.Errorf("the unit is not that of a package:\n%s", unit)
	}
}

// TestPackageRPM reads a package for Fedora.
func TestPackageRPM(t *testing.T) {
	need(t, "rpm")
	file := makePackage(t, "rpm", "v1.2.3", script(t))
	query := func(format string) string {
		return command(t, "rpm", "--query", "--package", "--queryformat", format, file)
	}
	if got := query("%{NAME} %{VERSION} %{LICENSE} %{BUILDHOST} %{BUILDTIME}"); got != "puntdns 1.2.3 Apache-2.0 AND MIT localhost 1700000000" {
		t.Errorf("its head: %s", got)
	}
	var files []string
	for line := range strings.Lines(query("[%{FILEMODES:perms} %{FILENAMES} %{FILEUSERNAME} %{FILEMTIMES}\n]")) {
		f := strings.Fields(line)
		files = append(files, f[0]+" "+f[1])
		if f[2] != "root" || f[3] != "1700000000" {
			t.Errorf("%s belongs to %s and is of %s", f[1], f[2], f[3])
		}
	}
	checkFiles(t, files, "drwxr-xr-x /usr/share/fish/vendor_completions.d", "l--------- /usr/bin/puntctl", "drwxr-xr-x /usr/share/licenses/puntdns", "-rw-r--r-- /usr/share/licenses/puntdns/LICENSE",
		"-rw-r--r-- /usr/share/licenses/puntdns/THIRD-PARTY-LICENSES",
		"-rw-r--r-- /usr/share/zsh/site-functions/_puntctl")
	for list, want := range map[string]string{
		"--licensefiles": "/usr/share/licenses/puntdns/THIRD-PARTY-LICENSES\n", "--docfiles": "/usr/share/man/man8/puntdns.8.gz\n",
	} {
		if got := command(t, "rpm", "--query", "--package", list, file); !strings.Contains(got, want) || strings.Contains(got, "/usr/lib") {
			t.Errorf("%s:\n%s", list, got)
		}
	}
	// Names of Fedora: setfacl is in acl; flock is in util-linux or, on later releases, in another
	// package.
	if got := slices.Sorted(strings.FieldsSeq(query("[%{REQUIRES} ]"))); !slices.Equal(got, []string{"/bin/sh", "/usr/bin/flock", "acl", "coreutils", "systemd"}) {
		t.Errorf("it needs %q", got)
	}
	run := command(t, "rpm", "--query", "--package", "--scripts", file)
	for _, name := range []string{"postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet"} {
		if !strings.Contains(run, name) {
			t.Errorf("no %s:\n%s", name, run)
		}
	}
}

// TestPackageVersion compares versions as dpkg does: a later commit has a later one.
func TestPackageVersion(t *testing.T) {
	need(t, "dpkg")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	before := "0"
	for _, tt := range []struct{ describe, want string }{
		{"abc1234-dirty", "0.0.0+git20231114221320.abc1234+dirty"},
		{"v1.2.0-rc1", "1.2.0~rc1"},
		{"v1.2.0-rc1-2-gabc1234", "1.2.0~rc1+2.gabc1234"},
		{"v1.2.0", "1.2.0"},
		{"v1.2.0-9-gabc1234-dirty", "1.2.0+9.gabc1234+dirty"},
		{"v1.2.0-10-g0bc1234", "1.2.0+10.g0bc1234"},
		{"1.2.1", "1.2.1"},
	} {
		got := strings.TrimSpace(command(t, "package/version.sh", tt.describe))
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.describe, got, tt.want)
		}
		command(t, "dpkg", "--compare-versions", before, "lt", got)
		before = got
	}
}

// TestPackageAgain makes each package twice of the same files, and wants the same bytes.
func TestPackageAgain(t *testing.T) {
	programs := script(t)
	for _, format := range []string{"deb", "rpm"} {
		t.Run(format, func(t *testing.T) {
			var made [2][]byte
			for i := range made {
				b, err := os.ReadFile(makePackage(t, format, "v1.2.3", programs))
				if err != nil {
					t.Fatal(err)
				}
				made[i] = b
			}
			if !bytes.Equal(made[0], made[1]) {
				t.Error("the second one has other bytes")
			}
		})
	}
}

// TestPurge runs what dpkg runs at a purge, on a root of its own: the files of saved snapshots go, and what
// the operator has put beside them stays.
func TestPurge(t *testing.T) {
	need(t, "find")
	root := t.TempDir()
	const saved = "/var/lib/puntdns/ovn-0123456789abcdef"
	own := []string{"/etc/puntdns/Corefile", "/var/log/puntdns/audit.json", saved, saved + ".new12", "/var/lib/puntdns/.probe7"}
	zones := []string{"/var/lib/puntdns/feed.rpz", "/var/lib/puntdns/ovn-example.rpz", "/var/lib/puntdns/zones/" + filepath.Base(saved)}
	text, err := os.ReadFile("package/deb/postrm")
	if err != nil {
		t.Fatal(err)
	}
	purge := strings.NewReplacer(" /etc/", " "+root+"/etc/", " /var/", " "+root+"/var/", " /run/", " "+root+"/run/", "-user puntdns", "-user 65534").Replace(string(text))
	purge = "getent() { :; }; userdel() { :; }; groupdel() { :; }\n" + purge // no user of this machine is asked for or goes
	isRoot := os.Geteuid() == 0
	for _, tt := range []struct {
		left     []string
		symbolic bool // the folder of the state is a symbolic link
		stays    bool
	}{{left: zones, stays: true}, {}, {left: zones, symbolic: true, stays: true}, {symbolic: true, stays: true}} {
		left := tt.left
		if tt.symbolic {
			elsewhere := filepath.Join(root, "/srv/puntdns")
			if err := errors.Join(os.MkdirAll(elsewhere, 0o700), os.Symlink(elsewhere, filepath.Join(root, "/var/lib/puntdns"))); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range append(slices.Clone(own), left...) {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if isRoot && len(left) > 0 {
			// The first one is the service's, the second one that of another user.
			if err := errors.Join(os.Chown(filepath.Join(root, left[0]), 65534, 65534), os.Chown(filepath.Join(root, left[1]), 4242, 4242)); err != nil {
				t.Fatal(err)
			}
		}
		command(t, "sh", "-c", purge, "postrm", "purge")
		for i, path := range left {
			info, err := os.Stat(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Sys().(*syscall.Stat_t).Uid; isRoot && got != []uint32{0, 4242, 0}[i] {
				t.Errorf("%s is of user %d", path, got)
			}
		}
		got := strings.ReplaceAll(command(t, "find", root, "-path", "*puntdns*", "-type", "f"), root, "")
		got = strings.ReplaceAll(got, "/srv/puntdns", "/var/lib/puntdns")
		if got := slices.Sorted(strings.FieldsSeq(got)); !slices.Equal(got, left) {
			t.Errorf("files after the purge: %q, want %q", got, left)
		}
		_, err := os.Stat(filepath.Join(root, "/var/lib/puntdns"))
		if there := err == nil; there != tt.stays {
			t.Errorf("the folder is there: %t, with %q in it", there, left)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(root, "/var/lib/puntdns")), os.RemoveAll(filepath.Join(root, "/srv"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackageScripts has shellcheck(1) read what is run as root on the chassis, and what makes it.
func TestPackageScripts(t *testing.T) {
	shellcheck := need(t, "shellcheck")
	var files []string
	for _, pattern := range []string{"package/*.sh", "package/restart", "package/revoke", "package/deb/p*", "package/rpm/p*"} {
		all, err := filepath.Glob(pattern)
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %q, %v", pattern, all, err)
		}
		files = append(files, all...)
	}
	// Those of rpm are no files of their own in the package, and so have no first line.
	command(t, shellcheck, append([]string{"--shell=sh", "--"}, files...)...)
}
