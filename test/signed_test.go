// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// signedZones are a small Internet with DNSSEC, children first. All are signed. What a zone
// delegates here without DS records, as ICANN does home.arpa (RFC 8375) and 10.in-addr.arpa
// (RFC 6303), has no server.
var signedZones = []struct{ name, records string }{
	{"example.com.", `
www   A    192.0.2.80
www   AAAA 2001:db8::80
four  A    192.0.2.4
cloud NS   ns.lab.`},
	{"com.", "example NS ns.lab."},
	{"arpa.", `
home       NS ns.lab.
10.in-addr NS ns.lab.`},
	{".", `
com    NS ns.lab.
arpa   NS ns.lab.
ns.lab A  192.0.2.53`},
}

// signedRoot is what a resolver needs to know of the root zone.
type signedRoot struct {
	server  string // HOST:PORT of the server of all zones
	keyFile string // the DNSKEY record of the root, in a file
	key     string // flags, protocol, algorithm and key of it, as BIND's trust-anchors takes them
	ds      string // key tag, algorithm, digest type and digest of it, parted by commas
}

// serveSigned serves signedZones in the first node.
func serveSigned(t *testing.T, l *lab.Lab) (root signedRoot) {
	t.Helper()
	dir := filepath.Join(l.Dir, "signed")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) string {
		t.Helper()
		out, err := l.Node.Exec(within(t, wait), argv...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	var conf strings.Builder
	root.server = "127.0.0.1:5353"
	fmt.Fprintf(&conf, `
options {
	directory "%s";
	listen-on port 5353 { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	recursion no;
	dnssec-validation no;
};
controls { };
`, dir)
	for _, z := range signedZones {
		file := filepath.Join(dir, "zone."+z.name)
		text := "$ORIGIN " + z.name + "\n$TTL 60\n@ SOA ns.lab. hostmaster.lab. 1 3600 600 86400 30\n@ NS ns.lab.\n" + z.records + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// One key signs all of a zone. The DS records of the children are in their dsset files.
		key := run("dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "-n", "ZONE", "-K", dir, z.name)
		run("dnssec-signzone", "-q", "-S", "-z", "-g", "-K", dir, "-d", dir, "-o", z.name, "-f", file+".signed", file)
		fmt.Fprintf(&conf, "zone \"%s\" { type primary; file \"%s.signed\"; };\n", z.name, file)
		if z.name == "." {
			root.keyFile = filepath.Join(dir, key+".key")
			root.key = recordData(t, readFile(t, root.keyFile), "DNSKEY")
			root.ds = strings.ReplaceAll(recordData(t, run("dnssec-dsfromkey", "-2", root.keyFile), "DS"), " ", ",")
		}
	}
	p := l.Node.Start("signed", nil, installed(t, l, "named"), "-g", "-n", "1", "-c", l.WriteFile("signed.conf", conf.String()))
	if err := p.WaitLog(within(t, wait), ` running\n`); err != nil {
		t.Fatal(err)
	}
	return root
}

// recordData returns the data of the record of that type in a text of records.
func recordData(t *testing.T, text, rrtype string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if _, data, found := strings.Cut(line, " IN "+rrtype+" "); found && !strings.HasPrefix(line, ";") {
			return strings.TrimSpace(data)
		}
	}
	t.Fatalf("no %s record in %q", rrtype, text)
	return ""
}

// installed returns the path of a copy of a daemon: by its own path AppArmor would keep it
// from the lab's folder.
func installed(t *testing.T, l *lab.Lab, name string) string {
	t.Helper()
	path := filepath.Join(l.Dir, "bin."+name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	binary, err := os.ReadFile(filepath.Join("/usr/sbin", name))
	if err != nil {
		lab.Lack(t, "%s is not installed: %v", name, err)
	}
	if err := lab.WriteProgram(path, string(binary)); err != nil {
		t.Fatal(err)
	}
	return path
}
