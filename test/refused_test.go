// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/dnstap/golang-dnstap"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/precheck"
)

// everything is a Corefile with a plugin of each kind that a start leaves something of:
// listeners, goroutines, a connection. AT stands where lines are added.
const everything = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    ready 127.0.0.1:8181 {
        monitor continuously
    }
    health 127.0.0.1:8080
    pprof 127.0.0.1:6053
    prometheus 127.0.0.1:9153
    errors
    dnstap unix://TAP
    ovnhosts {
        southbound $SB
        ttl 30
        fallthrough
    }
    cache 30
    hosts HOSTS 192.0.2.7 inline.test {
        fallthrough
    }
    file ZONE zone.test
    forward . UPSTREAM
    # at
}
`

// taken is what another program listens on.
const taken = "127.0.0.1:7777"

// wrongCorefiles are edits of everything that must be refused. says is in the error.
// slow ones wait for somebody who may still come.
var wrongCorefiles = []struct {
	name, old, new string
	says           string
	slow           bool
}{
	{"no closing brace", "# at\n}", "", `Corefile.puntdns:1 .*not closed`, false},
	{"an unknown plugin", "forward .", "forwad .", `Unknown directive 'forwad'`, false},
	{"a wrong property of ofpunt", "ovsdb $OVSDB", "ovsdb $OVSDB\n lease soon", `lease: "soon"`, false},
	{"a wrong property of ovnhosts", "ttl 30", "ttl soon", `ttl: "soon"`, false},
	{"a wrong word of a plugin of CoreDNS", "cache 30", "cache 0", `plugin/cache`, false},
	{"an upstream that is no address", "forward . UPSTREAM", "forward . no.address.at.all", `plugin/forward`, false},
	{"nothing to import", "# at", "import /no/such.import", `/no/such.import`, false},
	{"certificates that are not there", "ttl 30", "tls /no/cert.pem /no/key.pem /no/ca.pem", `tls: .*/no/cert.pem`, false},
	{"certificates of ofpunt that are not there", "ovsdb $OVSDB", "ovsdb $OVSDB\n tls /no/cert.pem /no/key.pem /no/ca.pem", `tls: .*/no/cert.pem`, false},
	{"equal zones", "# at\n}", "}\n. {\n ofpunt br-int\n whoami\n}", `zone "\." .*Corefile.puntdns:2\b`, false},
	{"other properties", "# at\n}", "}\na.test {\n ofpunt br-int {\n arp off\n }\n whoami\n}", `ofpunt br-int: .*Corefile.puntdns:2\b.*\(arp`, false},
	{"equal zones on a socket", "# at\n}", "}\na.test:1053 {\n whoami\n}\na.test:1053 {\n whoami\n}", `already defined`, false},
	{"loop without a socket", "# at", "loop", `ofpunt br-int: loop `, false},
	{"no ovnhosts", "ovnhosts {\n        southbound $SB\n        ttl 30\n        fallthrough\n    }", "", `ofpunt br-int: .*ovnhosts`, false},
	{"a socket that somebody has", "# at\n}", "}\na.test:7777 {\n bind 127.0.0.1\n whoami\n}", `dns://127.0.0.1:7777: .*in use`, false},
	{"an address that is not here", "# at\n}", "}\na.test:1053 {\n bind 192.0.2.250\n whoami\n}", `192.0.2.250`, false},
	{"prometheus where somebody listens", "prometheus 127.0.0.1:9153", "prometheus " + taken, `prometheus: "` + taken + `": .*in use`, false},
	{"ready where somebody listens", "ready 127.0.0.1:8181", "ready " + taken, `ready: "` + taken + `": .*in use`, false},
	{"health where somebody listens", "health 127.0.0.1:8080", "health " + taken, `health: "` + taken + `": .*in use`, false},
	{"pprof where somebody listens", "pprof 127.0.0.1:6053", "pprof " + taken, `pprof: "` + taken + `": .*in use`, false},
	{"two plugins on one address", "health 127.0.0.1:8080", "health 127.0.0.1:8181", `Corefile.puntdns:10 - health: "127.0.0.1:8181" .* ready at .*Corefile.puntdns:7\b`, false},
	{"two plugins on one port", "prometheus 127.0.0.1:9153", "prometheus :8080", `Corefile.puntdns:12 - prometheus: ":8080" .* health at .*Corefile.puntdns:10\b`, false},
	{"a switch that is not there", "openflow $MGMT", "openflow unix:/no/such.mgmt", `openflow: unix:/no/such.mgmt`, false},
	{"a local database that is not there", "ovsdb $OVSDB", "ovsdb unix:/no/such.sock", `ovsdb: unix:/no/such.sock`, false},
	{"a bridge that is not there", "ofpunt br-int", "ofpunt br-itn", `ofpunt br-itn: .*bridge`, false},
	{"no server block", everything, "# to be written\n", "Corefile.puntdns: " + precheck.ErrNoBlock.Error(), false},
	{"databases that are not there", "southbound $SB", "southbound unix:/no/such.sock", `ofpunt br-int: .*OVN_Southbound: .*unix:/no/such.sock`, true},
	{"a switch that does not connect", "openflow $MGMT", "openflow ptcp:7778:127.0.0.1", `openflow: ptcp:7778:127.0.0.1: `, true},
}

// A Corefile that is refused leaves nothing behind, and takes nothing along, whatever
// is wrong with it and however often it comes.
func TestRefusedReloads(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	tap := newTap(t, filepath.Join(n.l.Dir, "tap.sock"))
	write := n.l.WriteFile
	text := strings.NewReplacer(
		"TAP", tap.path, "UPSTREAM", n.upstream.Addr,
		"HOSTS", write("hosts", "192.0.2.8 host.test\n"),
		"ZONE", write("zone", "$ORIGIN zone.test.\n@ 30 IN SOA ns hostmaster 1 60 60 60 60\n@ 30 IN NS ns\nns 30 IN A 192.0.2.9\n"),
	)
	other, err := n.l.Node.Listen("tcp", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := serve(t, n.l, text.Replace(everything))

	ask := func(qname string, want string) {
		t.Helper()
		r, err := exchange(within(t, wait), n.vm, resolver4, qname, dns.TypeA)
		if err != nil || !regexp.MustCompile("^"+want+"$").MatchString(withTTL(r)) {
			t.Errorf("%s: %v, want %s\n%v", qname, err, want, r)
		}
	}
	// served asks something of all that a Corefile starts.
	served := func(ttl int) {
		t.Helper()
		ask("db.internal.", fmt.Sprintf("NOERROR %d 10.0.0.21", ttl))
		before := tap.frames.Load()
		ask("ns.zone.test.", `NOERROR \d+ 192.0.2.9`)
		n.l.Eventually("frames of dnstap", func() error {
			if tap.frames.Load() == before {
				return errors.New("none")
			}
			return nil
		})
		for _, url := range []string{"http://" + readyAddr + "/ready", "http://127.0.0.1:8080/health"} {
			if err := n.l.Node.WaitHTTP(within(t, wait), url, 200); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
	// The line of a refusal has what is in force and since when, and then the reason.
	refusal := regexp.MustCompile(`\[ERROR\] .*SIGUSR1: .*Corefile\.puntdns .*[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} .*?: (.*)\n`)
	refuse := func(i int) {
		t.Helper()
		w := wrongCorefiles[i]
		wrong := corefile(n.l, text.Replace(strings.Replace(everything, w.old, w.new, 1)))
		if w.old != everything && !strings.Contains(everything, w.old) {
			t.Fatalf("%s: nothing is changed", w.name)
		}
		before := len(s.Log())
		write("Corefile.puntdns", wrong)
		if err := s.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		n.l.Eventually(w.name, func() error {
			s.alive()
			line := refusal.FindStringSubmatch(s.Log()[before:])
			if line == nil {
				return fmt.Errorf("not refused:\n%s", s.Log()[before:])
			}
			if !regexp.MustCompile(w.says).MatchString(line[1]) {
				t.Errorf("%s: %q does not say %q", w.name, line[1], w.says)
			}
			// What a trial opens does not speak as what serves.
			if strings.Contains(s.Log()[before:], "plugin/ovnhosts: OVN_") {
				t.Errorf("%s: the trial passes for the serving Corefile:\n%s", w.name, s.Log()[before:])
			}
			return nil
		})
	}
	served(30)
	before, sockets, flows := s.usage(), openSockets(t, s), standingFlows(n.l)

	const refusals = 100
	for count := 0; count < refusals; {
		first := count == 0
		for i, w := range wrongCorefiles {
			if count == refusals || w.slow && !first {
				continue
			}
			refuse(i)
			count++
		}
		served(30)
		if got := openSockets(t, s); !slices.Equal(got, sockets) {
			t.Fatalf("after %d refusals the sockets are\n%q, before\n%q", count, got, sockets)
		}
	}
	most := usage{before.goroutines + 20, before.files + 10, before.memory + 32e6}
	n.l.Eventually("the process to be as before", func() error {
		s.collectGarbage("127.0.0.1:6053")
		if u := s.usage(); !u.within(most) {
			return fmt.Errorf("%s, at first %s", u, before)
		}
		return nil
	})
	for match, f := range standingFlows(n.l) {
		if g := flows[match]; g.cookie != f.cookie || f.duration < g.duration {
			t.Errorf("flow %s was %+v, is %+v", match, g, f)
		}
	}
	// They are in the way of nothing that comes after them.
	for _, ttl := range []int{40, 50} {
		s.reload(corefile(n.l, text.Replace(strings.Replace(everything, "ttl 30", fmt.Sprint("ttl ", ttl), 1))))
		s.ready(200)
		served(ttl)
		if got := openSockets(t, s); !slices.Equal(got, sockets) {
			t.Errorf("the sockets are\n%q, before\n%q", got, sockets)
		}
	}
	s.endWell()
}

// tap receives the frames of dnstap.
type tap struct {
	path   string
	frames atomic.Int64
	// extras has the field extra of the queries of clients, by the name asked for.
	extras sync.Map
}

func newTap(t *testing.T, path string) *tap {
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	tap := &tap{path: path}
	go tap.serve(ln)
	return tap
}

// serve ends with the listener. dnstap.FrameStreamSockInput would call Accept for ever then, on a whole processor.
func (t *tap) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go t.read(conn)
	}
}

func (t *tap) read(conn net.Conn) {
	defer conn.Close()
	in, err := dnstap.NewFrameStreamInput(conn, true)
	if err != nil {
		return
	}
	for frame := range framesOf(in) {
		t.note(frame)
		t.frames.Add(1)
	}
}
