// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A line that is wrong ends in this comment; puntdns has to name it.
const wrongLine = "# here"

// corefileRefusals are Corefiles that must not start. want is what the error says after
// the place: the property and what was expected of it. OF, OVSDB and SB are
// endpoints where somebody listens; NAMES is an ovnhosts that is right.
var corefileRefusals = []struct{ name, text, want string }{
	{"ofpunt without a bridge", ofpuntLine("ofpunt # here"), "expected one bridge name after ofpunt"},
	{"ofpunt with two bridges", ofpuntLine("ofpunt br-int br-ex # here"), "expected one bridge name after ofpunt"},
	{"ofpunt twice", ofpuntLine("ofpunt br-int\n ofpunt br-ex # here"), "ofpunt .*twice.*expected once"},
	{"ofpunt: unknown property", withOfpunt("colour red # here"), `"colour".*expected one of`},
	{"ofpunt: property twice", withOfpunt("arp on\n arp off # here"), `"arp".*twice.*expected once`},

	{"openflow without words", ofpuntLine("ofpunt br-int {\n openflow # here\n}"), "openflow: expected one of unix:PATH"},
	{"openflow with two words", ofpuntLine("ofpunt br-int {\n openflow unix:/a unix:/b # here\n}"), "openflow: expected one of unix:PATH"},
	{"openflow of no method", ofpuntLine("ofpunt br-int {\n openflow br-int.mgmt # here\n}"), "openflow: .*br-int.mgmt.*expected unix:PATH"},
	{"openflow of another method", ofpuntLine("ofpunt br-int {\n openflow udp:127.0.0.1:6653 # here\n}"), `openflow: .*"udp", expected unix:PATH`},
	{"openflow without a path", ofpuntLine("ofpunt br-int {\n openflow unix: # here\n}"), "openflow: .*expected a path"},
	{"openflow without a port", ofpuntLine("ofpunt br-int {\n openflow tcp:127.0.0.1 # here\n}"), "openflow: .*expected HOST:PORT"},
	{"openflow with a large port", ofpuntLine("ofpunt br-int {\n openflow tcp:127.0.0.1:65536 # here\n}"), "openflow: .*65536.*expected a number"},
	{"openflow with ssl but no tls", ofpuntLine("ofpunt br-int {\n openflow ssl:127.0.0.1:6653 # here\n}"), "openflow: .*expected .*tls"},
	{"ovsdb to listen on", ofpuntLine("ofpunt br-int {\n openflow OF\n ovsdb ptcp:6640 # here\n}"), "ovsdb: .*expected an endpoint to connect to"},
	{"ovsdb without words", ofpuntLine("ofpunt br-int {\n openflow OF\n ovsdb # here\n}"), "ovsdb: expected one of unix:PATH"},
	{"ovsdb with ssl but no tls", ofpuntLine("ofpunt br-int {\n openflow OF\n ovsdb ssl:127.0.0.1:6640 # here\n}"), "ovsdb: .*expected .*tls"},

	{"placement without words", withOfpunt("placement # here"), "placement: expected ovn,"},
	{"placement of another kind", withOfpunt("placement here # here"), `placement: .*"here".*expected ovn`},
	{"placement ovn with a table", withOfpunt("placement ovn 30 # here"), "placement: .*expected ovn"},
	{"placement table without one", withOfpunt("placement table # here"), "placement: .*expected"},
	{"placement table out of range", withOfpunt("placement table 256 # here"), "placement: .*expected"},
	{"dhcp without Northbound", "\n. {\n ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n address 10.0.0.1 dhcp # here\n }\n ovnhosts { # here\n southbound SB\n }\n}",
		`address: ovnhosts at .*Corefile.wrong:8 reads no Northbound.*expected northbound`},
	{"placement ovn without Southbound", "\n. {\n ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n }\n ovnhosts { # here\n northbound SB\n }\n}",
		"ovnhosts reads no Southbound.*expected southbound"},
	{"gateway without ovnhosts", "\n. {\n ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n placement neutron\n address gateway # here\n }\n whoami\n}",
		"address: no block of this bridge has ovnhosts.*dhcp and gateway.*expected"},
	{"any and gateway", withOfpunt("address any gateway # here"), `any stands alone`},
	{"address without words", withOfpunt("address # here"), `address: expected IP\[:PORT\]\.\.\., dhcp, gateway, or any`},
	{"address that is none", withOfpunt("address ten.0.0.1 # here"), `address: "ten.0.0.1": expected IP`},
	{"address with port 0", withOfpunt("address 10.0.0.1:0 # here"), "address: .*expected a port from 1"},
	{"address multicast", withOfpunt("address ff02::fb # here"), "address: .*expected a unicast address"},
	{"address twice", withOfpunt("address 10.0.0.1 10.0.0.1:53 # here"), "address: .*10.0.0.1:53.*twice.*expected once"},
	{"address any and another", withOfpunt("address any 10.0.0.1 # here"), "address: .*any.*expected"},
	{"arp without words", withOfpunt("arp # here"), "arp: .*expected on or off"},
	{"arp of another word", withOfpunt("arp perhaps # here"), "arp: .*perhaps.*expected on or off"},
	{"controller_id 0", withOfpunt("controller_id 0 # here"), "controller_id: .*expected a number from 1 to 65535"},
	{"controller_id too large", withOfpunt("controller_id 65536 # here"), "controller_id: .*expected a number from 1 to 65535"},
	{"lease without a unit", withOfpunt("lease 15 # here"), `lease: "15": expected 0 or whole seconds`},
	{"lease too short", withOfpunt("lease 1s # here"), `lease: "1s": expected 0 or whole seconds from 3s`},
	{"lease too long", withOfpunt("lease 65536s # here"), `lease: "65536s": expected .* to 65535s`},
	{"rate of a word", withOfpunt("rate fast # here"), `rate.*expected`},
	{"rate 0", withOfpunt("rate 0 # here"), `rate.*expected`},
	{"max_concurrent without words", withOfpunt("max_concurrent # here"), `max_concurrent: .*expected N \[PER_PORT\]`},
	{"max_concurrent 0", withOfpunt("max_concurrent 0 # here"), `max_concurrent: .*expected N \[PER_PORT\]`},
	{"max_concurrent of a port above all", withOfpunt("max_concurrent 10 11 # here"), "max_concurrent: .*expected .*PER_PORT at most N"},
	{"overload of another word", withOfpunt("overload panic # here"), "overload: .*expected servfail or drop"},
	{"cache_scope of another word", withOfpunt("cache_scope tenant # here"), `cache_scope: .*"tenant".*expected shared or network or port`},
	{"cache_scope without words", withOfpunt("cache_scope # here"), `cache_scope: .*expected shared or network or port`},
	{"cache_share 0", withOfpunt("cache_share 0 # here"), `cache_share: "0": expected a number from 1 to 100`},
	{"cache_share too large", withOfpunt("cache_share 101 # here"), `cache_share: "101": expected a number from 1 to 100`},
	{"cache_share with a sign", withOfpunt("cache_share 25% # here"), `cache_share: "25%": expected a number from 1 to 100`},
	{"metrics of another word", withOfpunt("metrics guest # here"), `metrics: .*"guest".*expected network`},
	{"metrics without words", withOfpunt("metrics # here"), `metrics: .*expected network`},
	{"ofpunt tls with two words", withOfpunt("tls cert.pem key.pem # here"), "tls: expected CERT KEY CA"},
	{"ofpunt tls of no file", withOfpunt("tls /no/cert.pem /no/key.pem /no/ca.pem # here"), "tls: .*/no/cert.pem.*expected"},

	{"neutronhosts twice", ovnhostsLine("neutronhosts\n neutronhosts # here"), "neutronhosts .*twice.*expected once"},
	{"neutronhosts of a bad zone", ovnhostsLine("neutronhosts a..b # here"), `"a\.\.b".*expected a zone`},
	{"neutronhosts: unknown property", ovnhostsLine("neutronhosts {\n colour red # here\n}"), `"colour".*expected one of`},
	{"neutronhosts with a relative path", ovnhostsLine("neutronhosts {\n path dhcp # here\n}"), `path: "dhcp": expected an absolute path`},
	{"neutronhosts with two paths", ovnhostsLine("neutronhosts {\n path /a /b # here\n}"), "path: .*expected an absolute path"},
	{"neutronhosts with the root as its domain", ovnhostsLine("neutronhosts {\n domain . # here\n}"), "domain: .*expected a domain name"},
	{"ovnhosts twice", ovnhostsLine("ovnhosts\n ovnhosts # here"), "ovnhosts .*twice.*expected once"},
	{"ovnhosts of a bad zone", ovnhostsLine("ovnhosts red.test a..b # here"), `"a\.\.b".*expected`},
	{"ovnhosts: unknown property", withOvnhosts("colour red # here"), `"colour".*expected one of`},
	{"ovnhosts: property twice", withOvnhosts("ttl 1\n ttl 2 # here"), `"ttl".*twice.*expected once`},
	{"southbound without words", ovnhostsLine("ovnhosts {\n southbound # here\n}"), "southbound: expected at least one of unix:PATH"},
	{"southbound of no method", ovnhostsLine("ovnhosts {\n southbound /run/ovn/ovnsb_db.sock # here\n}"), "southbound: .*expected unix:PATH"},
	{"southbound to listen on", ovnhostsLine("ovnhosts {\n southbound pssl:6642 # here\n}"), "southbound: .*expected an endpoint to connect to"},
	{"southbound with an endpoint twice", ovnhostsLine("ovnhosts {\n southbound SB SB # here\n}"), "southbound: .*twice.*expected once"},
	{"southbound with ssl but no tls", ovnhostsLine("ovnhosts {\n southbound ssl:127.0.0.1:6642 # here\n}"), "southbound: .*expected .*tls"},
	{"northbound of another method", withOvnhosts("northbound http://127.0.0.1:6641 # here"), "northbound: .*expected unix:PATH"},
	{"monitor without words", withOvnhosts("monitor # here"), "monitor: .*expected local or all"},
	{"monitor of another word", withOvnhosts("monitor some # here"), "monitor: .*some.*expected local or all"},
	{"ovnhosts tls with one word", withOvnhosts("tls cert.pem # here"), "tls: .*expected CERT KEY CA"},
	{"ovnhosts with an address as the server's name", withOvnhosts("tls_servername 10.0.0.1 # here"), "tls_servername: .*10.0.0.1.*expected the host name"},
	{"ovnhosts with a server's name but no tls", withOvnhosts("tls_servername db.example # here"), "tls_servername: .*db.example.*expected the property tls"},
	{"ovnhosts tls of no file", withOvnhosts("tls /no/cert.pem /no/key.pem /no/ca.pem # here"), "tls: .*/no/cert.pem.*expected"},
	{"domain without words", withOvnhosts("domain # here"), "domain: .*expected a domain name"},
	{"domain that is none", withOvnhosts("domain a..b # here"), `domain: "a\.\.b": expected a domain name`},
	{"domain that is the root", withOvnhosts("domain . # here"), "domain: .*expected a domain name below the root"},
	{"ttl below 0", withOvnhosts("ttl -1 # here"), `ttl: "-1": expected whole seconds from 0`},
	{"ttl with a unit", withOvnhosts("ttl 30s # here"), `ttl: "30s": expected whole seconds`},
	{"ttl too large", withOvnhosts("ttl 2147483648 # here"), `ttl: "2147483648": expected .* to 2147483647`},
	{"scope of another word", withOvnhosts("scope world # here"), "scope: .*world.*expected .*switch"},
	{"shuffle without words", withOvnhosts("shuffle # here"), "shuffle: .*expected on or off"},
	{"default_switch without words", withOvnhosts("default_switch # here"), "default_switch: .*expected the name or the UUID of a logical switch"},
	{"fallthrough of a bad zone", withOvnhosts("fallthrough a..b # here"), `fallthrough: .*"a\.\.b".*expected`},

	{"rpz without a zone", ovnhostsLine("rpz # here"), "rpz: zone: 0 policy zones: expected 1 to 64"},
	{"rpz twice", ovnhostsLine("rpz {\n zone a file /a\n }\n rpz # here"), "rpz .*twice.*expected once"},
	{"rpz of a bad zone", ovnhostsLine("rpz a..b # here"), `"a\.\.b".*expected a zone`},
	{"rpz: unknown property", ovnhostsLine("rpz {\n colour red # here\n}"), `"colour".*expected one of`},
	{"zone with a name alone", ovnhostsLine("rpz {\n zone a # here\n}"), `zone: \["a"\]: expected NAME file PATH or NAME transfer ADDRESS`},
	{"zone that is the root", ovnhostsLine("rpz {\n zone . file /a # here\n}"), `zone: "\.": expected the name of a policy zone`},
	{"zone twice", ovnhostsLine("rpz {\n zone a file /a\n zone A. file /b # here\n}"), `zone: a\. is given twice, expected once`},
	{"zone of another kind", ovnhostsLine("rpz {\n zone a url http://a # here\n}"), `zone: "url": expected file or transfer`},
	{"zone of a relative path", ovnhostsLine("rpz {\n zone a file a # here\n}"), `zone: "a": expected an absolute path`},
	{"zone of no file", ovnhostsLine("ovnhosts {\n southbound SB\n }\n rpz {\n zone a file /no/zone # here\n}"), `zone a\.: open /no/zone: no such file`},
	{"zone of a folder", ovnhostsLine("ovnhosts {\n southbound SB\n }\n rpz {\n zone a file /etc # here\n}"), `zone a\.: /etc: not a regular file`},
	{"zone of another policy", ovnhostsLine("rpz {\n zone a file /a policy block # here\n}"), `policy "block": expected given, log, nxdomain`},
	{"zone with a word too many", ovnhostsLine("rpz {\n zone a file /a /b # here\n}"), `\["/b"\]: expected NAME file PATH`},
	{"tsig of a file", ovnhostsLine("rpz {\n zone a file /a tsig k # here\n}"), `"tsig": expected NAME file PATH`},
	{"transfer from a name", ovnhostsLine("rpz {\n zone a transfer ns.test # here\n}"), `"ns.test": expected the address of a primary`},
	{"transfer from nobody", ovnhostsLine("rpz {\n zone a transfer policy drop # here\n}"), "expected the address of a primary behind transfer"},
	{"transfer with a key that is not there", ovnhostsLine("rpz {\n zone a transfer 192.0.2.1 tsig k # here\n}"), `zone a\.: no tsig line has the key k\.`},
	{"tsig without a secret", ovnhostsLine("rpz {\n tsig k # here\n}"), `tsig: 1 words: expected NAME SECRET`},
	{"tsig twice", ovnhostsLine("rpz {\n tsig k c2VjcmV0\n tsig K. c2VjcmV0 # here\n}"), `tsig: k\. is given twice`},
	{"tsig of no base64", ovnhostsLine("rpz {\n tsig k ! # here\n}"), `tsig: the secret of k: expected base64`},
	{"required with a word", ovnhostsLine("rpz {\n required yes # here\n}"), `required: \["yes"\]: expected nothing`},
	{"max_ttl of a word", ovnhostsLine("rpz {\n max_ttl long # here\n}"), `max_ttl: "long": expected whole seconds from 0`},
	{"ede of another word", ovnhostsLine("rpz {\n ede 15 # here\n}"), `ede: "15": expected blocked or censored`},
	{"ovnforward without ovnhosts", ovnhostsLine("ovnforward # here"), "ovnforward: the block has no ovnhosts.*expected it, with northbound"},
	{"ovnforward without Northbound", ovnhostsLine("ovnhosts {\n southbound SB\n }\n ovnforward # here"), "ovnforward: ovnhosts in the same block reads no Northbound.*expected northbound there"},
	{"ovnforward of a bad zone", ovnforwardLine("ovnforward a..b # here"), `"a\.\.b".*expected a zone`},
	{"ovnforward: unknown property", ovnforwardLine("ovnforward {\n colour red # here\n}"), `"colour".*expected one of`},
	{"allow without words", ovnforwardLine("ovnforward {\n allow # here\n}"), `allow: expected prefixes`},
	{"allow of a name", ovnforwardLine("ovnforward {\n allow ns.test # here\n}"), `allow: "ns.test": expected a prefix`},
	{"allow with bits of a host", ovnforwardLine("ovnforward {\n allow 10.0.0.1/8 # here\n}"), `allow: "10.0.0.1/8": expected 10.0.0.0/8, or the address alone`},
	{"deny of a mapped prefix", ovnforwardLine("ovnforward {\n deny ::ffff:10.0.0.0/104 # here\n}"), `deny: "::ffff:10.0.0.0/104": expected the IPv4 prefix`},
	{"allow with a scope", ovnforwardLine("ovnforward {\n allow fe80::1%eth0 # here\n}"), `allow: "fe80::1%eth0": expected a prefix`},
	{"ports without words", ovnforwardLine("ovnforward {\n ports # here\n}"), `ports: expected port numbers`},
	{"ports with 0", ovnforwardLine("ovnforward {\n ports 0 # here\n}"), `ports: "0": expected a port from 1 to 65535`},
	{"max_zones 0", ovnforwardLine("ovnforward {\n max_zones 0 # here\n}"), `max_zones: "0": expected a number from 1 to 256`},
	{"max_servers too large", ovnforwardLine("ovnforward {\n max_servers 17 # here\n}"), `max_servers: "17": expected a number from 1 to 16`},
	{"max_upstreams with two words", ovnforwardLine("ovnforward {\n max_upstreams 1 2 # here\n}"), `max_upstreams: .*expected a number from 1 to 65536`},
	{"log of no line", ovnhostsLine("rpz {\n log 0 # here\n}"), `log: "0": expected whole lines a second from 1`},

	{"passthrough with a word", passthroughLine("passthrough all # here"), "all.*expected nothing after passthrough"},
	{"passthrough with a property", passthroughLine("passthrough {\n to there # here\n }"), `property "to", expected none`},
	{"passthrough twice", passthroughLine("passthrough\n passthrough # here"), "passthrough .*twice.*expected once"},

	{"loop without a socket", passthroughLine("forward . 127.0.0.1:5300\n loop"), "loop .*no socket.*expected .*without loop"},
	{"no ovnhosts on the bridge", `
. {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
    }
    whoami
}
other.test {
    ofpunt br-int
    whoami
}`, "no block of this bridge has ovnhosts.*expected"},
	{"no ovnhosts on one of two bridges", `
. {
    ofpunt br-int {
        openflow OF
        ovsdb OVSDB
    }
    NAMES
}
. {
    ofpunt br-ex { # here
        openflow OF
        ovsdb OVSDB
    }
    whoami
}`, "br-ex: no block of this bridge has ovnhosts.*expected"},
	{"equal zones without a view", `
. {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
    }
    NAMES
}
. {
    ofpunt br-int # here
    whoami
}`, `zone "\.".*expected another zone or a view`},
	{"a zone of several, in other case", `
a.test b.test {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
    }
    NAMES
}
c.test B.Test {
    ofpunt br-int # here
    whoami
}`, `zone "b\.test\.".*expected another zone or a view`},
	{"other properties for one bridge", `
. {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
    }
    NAMES
}
other.test {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
        arp off
    }
    whoami
}`, `other properties than at .* \(arp\), expected the same or none`},
	{"a limit by a label that no database tells", `
. {
    ofpunt br-int {
        openflow OF
        ovsdb OVSDB
        placement neutron
        limit ofpunt/port vm1 {
            rate 5
        }
        limit ofpunt/router r1 { # here
            rate 5
        }
    }
    whoami
}`, `limit ofpunt/router r1: the label is empty without an OVN database; expected ovnhosts`},
	{"other limits for one bridge", `
. {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
        limit ofpunt/port vm1 {
            rate 5
        }
    }
    NAMES
}
other.test {
    ofpunt br-int { # here
        openflow OF
        ovsdb OVSDB
        limit ofpunt/port vm1 {
            rate 6
        }
    }
    whoami
}`, `other properties than at .* \(limit\), expected the same or none`},
	{"other databases on one bridge", `
. {
    ofpunt br-int {
        openflow OF
        ovsdb OVSDB
    }
    ovnhosts { # here
        southbound SB
    }
}
other.test {
    ofpunt br-int
    ovnhosts { # here
        southbound SB
        monitor all
    }
}`, `ovnhosts differs from the one at .* in what it reads \(monitor\), expected the same`},
}

// ofpuntLine is a Corefile with an ofpunt directive in it.
func ofpuntLine(directive string) string {
	return "\n. {\n " + directive + "\n NAMES\n}"
}

// withOfpunt is a Corefile with a property of ofpunt in it.
func withOfpunt(property string) string {
	return ofpuntLine("ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n " + property + "\n }")
}

// ovnhostsLine is a Corefile with an ovnhosts directive in it.
func ovnhostsLine(directive string) string {
	return "\n. {\n ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n }\n " + directive + "\n}"
}

// ovnforwardLine is a Corefile with an ovnforward directive beside an ovnhosts that it can use.
func ovnforwardLine(directive string) string {
	return ovnhostsLine("ovnhosts {\n southbound SB\n northbound SB\n }\n " + directive)
}

func withOvnhosts(property string) string {
	return ovnhostsLine("ovnhosts {\n southbound SB\n " + property + "\n }")
}

// passthroughLine is a Corefile with directives behind ovnhosts; ofpunt is
// where an error of the whole block is.
func passthroughLine(directives string) string {
	at := ""
	if !strings.Contains(directives, wrongLine) {
		at = wrongLine
	}
	return "\n. {\n ofpunt br-int { " + at + "\n openflow OF\n ovsdb OVSDB\n }\n NAMES\n " + directives + "\n}"
}

func TestCorefileRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range corefileRefusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var listeners []*tapEndpoint
			text := strings.ReplaceAll(tc.text, "NAMES", "ovnhosts {\n southbound SB\n fallthrough\n }")
			for _, name := range []string{"OF", "OVSDB", "SB"} {
				ln := listenUnix(t, filepath.Join(dir, name))
				listeners = append(listeners, ln)
				text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, "unix:"+ln.path)
			}
			path := filepath.Join(dir, "Corefile.wrong")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}

			said, err := run(t, "-conf", path)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit status 1", err)
			}
			// The whole error stands in the last line, as log collectors show it.
			said = strings.TrimSpace(said)
			said = said[strings.LastIndexByte(said, '\n')+1:]
			var where []string
			for i, line := range strings.Split(text, "\n") {
				if strings.HasSuffix(line, wrongLine) {
					where = append(where, path+":"+strconv.Itoa(i+1))
				}
			}
			for _, w := range where {
				if !regexp.MustCompile(regexp.QuoteMeta(w) + `\b`).MatchString(said) {
					t.Errorf("%q does not name %s in\n%s", said, w, text)
				}
			}
			if len(where) == 0 {
				t.Error("the table marks no line")
			}
			if !regexp.MustCompile(tc.want).MatchString(said) {
				t.Errorf("%q does not match %q", said, tc.want)
			}
			// Nothing was half started.
			for _, ln := range listeners {
				ln.untouched(t)
			}
		})
	}
}

// tapEndpoint is an endpoint that nobody should call.
type tapEndpoint struct {
	*net.UnixListener
	path string
}

func listenUnix(t *testing.T, path string) *tapEndpoint {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &tapEndpoint{ln, path}
}

// untouched calls itself: the calls wait in order, so the first to be taken must
// be this one.
func (ln *tapEndpoint) untouched(t *testing.T) {
	t.Helper()
	mine, err := net.Dial("unix", ln.path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if _, err := mine.Write([]byte("mine")); err != nil {
		t.Fatal(err)
	}
	first, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	buf := make([]byte, 64)
	// The caller has ended, so that its side is closed if it is not ours.
	n, _ := first.Read(buf)
	if string(buf[:n]) != "mine" {
		t.Errorf("%s was called, %q came", ln.path, buf[:n])
	}
}
