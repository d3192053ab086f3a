// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// The programs of docs/extending.md are built as it says, from modules of their own.

// module is the folder of a Go module that is built offline, in the place of which it has a
// replacement of this one.
type module struct {
	t   *testing.T
	dir string
}

// newModule makes a module that has the requirements of this one: what they need is in the cache
// of modules.
func newModule(t *testing.T, dir, path string) module {
	t.Helper()
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// A build of ours does not need all modules that the list has.
	download := exec.CommandContext(within(t, 10*wait), "go", "mod", "download")
	download.Dir = here
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	m := module{t, dir}
	_, required, _ := strings.Cut(readFile(t, "../go.mod"), "\n")
	text := "module " + path + required + "\nrequire github.com/puntdns/puntdns v0.0.0\n\nreplace github.com/puntdns/puntdns => " + here + "\n"
	// Of itself a module requires no version.
	m.write("go.mod", regexp.MustCompile(`(?m)^\t`+regexp.QuoteMeta(path)+` .*\n`).ReplaceAllString(text, ""))
	m.write("go.sum", readFile(t, "../go.sum"))
	return m
}

// write writes a file of the module.
func (m module) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// golang runs the go command in the module.
func (m module) golang(cgo string, args ...string) {
	m.t.Helper()
	cmd := exec.CommandContext(within(m.t, 10*wait), "go", args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOPROXY=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// documentedFiles returns the Go files in docs/extending.md by the names in their first lines, and
// its lines for plugin.cfg.
func documentedFiles(t *testing.T) (files map[string]string, lines []string) {
	t.Helper()
	files = map[string]string{}
	for _, b := range pages.Load(t, "..", "docs/extending.md").Blocks {
		if m := regexp.MustCompile(`^// (\S+)\n`).FindStringSubmatch(b.Text); m != nil && b.Language == "go" {
			files[m[1]] = b.Text[len(m[0]):]
		}
		lines = append(lines, regexp.MustCompile(`(?m)^[a-z]+:github.com/puntdns/\S+$`).FindAllString(b.Text, -1)...)
	}
	if len(files) != 2 || len(lines) != 2 {
		t.Fatalf("docs/extending.md has the files %v and the lines %q, want two of each", files, lines)
	}
	return files, lines
}

// A program of its own with a plugin of its own serves guests, and the plugin knows who asks.
func TestDistribution(t *testing.T) {
	t.Parallel()
	m := newModule(t, t.TempDir(), "example.org/hellodns")
	files, _ := documentedFiles(t)
	for name, text := range files {
		m.write(name, text)
	}
	const above = "\novnhosts:"
	list := readFile(t, "../plugin.cfg")
	if strings.Count(list, above) != 1 {
		t.Fatalf("plugin.cfg has not one line %s", above)
	}
	m.write("plugin.cfg", strings.Replace(list, above, "\nhello:example.org/hellodns/hello"+above, 1))
	m.golang("0", "generate", "./...")
	m.golang("1", "build", "-race", "-o", "hellodns", ".")
	binary := filepath.Join(m.dir, "hellodns")
	out, err := exec.Command(binary, "-plugins").Output()
	if err != nil || !slices.Contains(strings.Fields(string(out)), "hello") {
		t.Errorf("-plugins: %v\n%s", err, out)
	}
	if out, err := exec.Command(binary, "-version").Output(); err != nil || !strings.HasPrefix(string(out), "hellodns-1.0 (CoreDNS-") {
		t.Errorf("-version: %v\n%s", err, out)
	}

	n := newOverlap(t)
	s := launchBinary(t, n.Lab, n.Node, binary, "hellodns", ". {\n ofpunt br-int {\n openflow $MGMT\n ovsdb $OVSDB\n }\n ready "+readyAddr+
		" {\n monitor continuously\n }\n metadata\n hello\n ovnhosts {\n southbound $SB\n }\n}\n")
	s.ready(200)
	for g, want := range map[*lab.Guest]string{n.red: n.red.Name, n.blue: n.blue.Name} {
		r, err := exchange(within(t, wait), g, resolver4, "hello.", dns.TypeTXT)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Answer) != 1 || r.Answer[0].(*dns.TXT).Txt[0] != want {
			t.Errorf("%s is told %v, want its port", g.Name, r.Answer)
		}
	}
	s.endWell()
}

// A stock CoreDNS takes ovnhosts by a line in its plugin.cfg, and refuses ofpunt.
func TestStockCoreDNS(t *testing.T) {
	t.Parallel()
	source, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(source)))); err != nil {
		t.Fatal(err)
	}
	m := newModule(t, dir, "github.com/coredns/coredns")
	_, lines := documentedFiles(t)
	// All of CoreDNS's plugins take minutes to build.
	var list strings.Builder
	fmt.Fprintf(&list, "metadata:metadata\nofpunt:github.com/puntdns/puntdns/ofpunt\nbind:bind\nerrors:errors\nlog:log\n%s\ncache:cache\nhosts:hosts\n%s\nforward:forward\n", lines[0], lines[1])
	m.write("plugin.cfg", list.String())
	m.golang("0", "run", "directives_generate.go")
	m.golang("0", "build", "-trimpath", "-ldflags", "-s -w", "-o", "coredns", ".")

	northbound := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	northbound.Transact(t, "OVN_Northbound",
		map[string]any{"op": "insert", "table": "DNS", "uuid-name": "names", "row": map[string]any{
			"records": []any{"map", [][2]string{{"db.internal", "10.0.0.21"}}}}},
		map[string]any{"op": "insert", "table": "Logical_Switch", "row": map[string]any{
			"name": "red", "dns_records": []any{"set", []any{[]string{"named-uuid", "names"}}}}})
	start := func(text string) *exec.Cmd {
		path := filepath.Join(t.TempDir(), "Corefile")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(within(t, 2*wait), filepath.Join(dir, "coredns"), "-conf", path)
	}

	port := freePort(t)
	served := start(fmt.Sprintf(".:%s {\n bind 127.0.0.1\n ovnhosts {\n northbound %s\n default_switch red\n fallthrough\n }\n cache\n hosts {\n 10.0.0.9 nas.home.arpa\n fallthrough\n }\n private\n}\n", port, northbound.Endpoint))
	if err := served.Start(); err != nil {
		t.Fatal(err)
	}
	var got *dns.Msg
	for deadline := within(t, wait); deadline.Err() == nil; time.Sleep(10 * time.Millisecond) { // until it listens, and has read the database
		if got, err = dns.ExchangeContext(deadline, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA), "127.0.0.1:"+port); err == nil && got.Rcode == dns.RcodeSuccess {
			break
		}
	}
	if err != nil || len(got.Answer) != 1 || got.Answer[0].(*dns.A).A.String() != "10.0.0.21" {
		t.Errorf("%v, %v", err, got)
	}
	for name, rcode := range map[string]int{"nas.home.arpa.": dns.RcodeSuccess, "none.home.arpa.": dns.RcodeNameError} {
		if got, err = dns.ExchangeContext(within(t, wait), new(dns.Msg).SetQuestion(name, dns.TypeA), "127.0.0.1:"+port); err != nil || got.Rcode != rcode {
			t.Errorf("%s: %v, %v", name, err, got)
		}
	}
	_ = served.Process.Signal(syscall.SIGTERM)
	if err := served.Wait(); err != nil {
		t.Error(err)
	}

	refused := start(". {\n ofpunt br-int\n ovnhosts {\n northbound " + northbound.Endpoint + "\n southbound unix:/nowhere\n }\n}\n")
	out, err := refused.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Corefile:2 - ofpunt br-int: this program would serve nobody") || !strings.Contains(string(out), "puntdns.Run") {
		t.Errorf("with ofpunt: %v\n%s", err, out)
	}
}

// freePort returns a port of the loopback that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}
