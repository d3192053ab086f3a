// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dnstap/golang-dnstap"
	"github.com/miekg/dns"
	"google.golang.org/protobuf/proto"

	"github.com/puntdns/puntdns/test/lab"
)

// collector is Debian's fstrm_capture, which writes what dnstap sends to a file.
type collector struct {
	*lab.Process
	l          *lab.Lab
	path, file string
	files      int
}

// start starts it, with a new file.
func (c *collector) start() {
	c.files++
	c.file = filepath.Join(c.l.Dir, fmt.Sprintf("tap%d.fstrm", c.files))
	_ = os.Remove(c.path)
	c.Process = c.l.Node.Start("fstrm_capture", nil, "fstrm_capture", "-t", "protobuf:dnstap.Dnstap", "-u", c.path, "-w", c.file)
	c.l.Eventually("the collector's socket", func() error { return os.Chmod(c.path, 0o777) })
}

// framesOf returns the frames of dnstap until in ends.
func framesOf(in *dnstap.FrameStreamInput) <-chan []byte {
	frames := make(chan []byte)
	go func() { in.ReadInto(frames); close(frames) }()
	return frames
}

// stop stops it, and returns what it has written.
func (c *collector) stop(t *testing.T) (all []*dnstap.Dnstap) {
	t.Helper()
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(within(t, wait)); err != nil {
		t.Fatal(err)
	}
	in, err := dnstap.NewFrameStreamInputFromFilename(c.file)
	if err != nil {
		t.Fatal(err)
	}
	for frame := range framesOf(in) {
		m := new(dnstap.Dnstap)
		if err := proto.Unmarshal(frame, m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// The messages of dnstap, as Debian's tools read them, have the guest's address and port, and in
// extra who that is: for names of OVN, of the upstream and of the cache, over UDP and TCP, and for
// SERVFAIL at the deadline. A collector that hangs or is gone delays no answer, and what is lost
// then is counted.
func TestDnstap(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	projects(n.Lab, "red-vm1", "p-red")
	projects(n.Lab, "blue-vm1", "p-blue")
	n.Sync()
	up := n.Upstream("www.example. 300 IN A 192.0.2.80")
	silent := n.Upstream()
	silent.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
	c := &collector{l: n.Lab, path: filepath.Join(n.Dir, "tap.sock")}
	c.start()
	log := filepath.Join(auditFolder(t, n.Lab), "audit.json")
	tap := "audit " + log + `
    dnstap ` + c.path + ` full {
        extra "{/ofpunt/network} {/ofpunt/port} {/ofpunt/external-id/neutron:project_id} {/ofpunt/destination}"
    }`
	block, _, _ := strings.Cut(auditedCorefile, "    audit ")
	text := strings.Replace(block, "MODE", "", 1) + "    " + tap + `
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache 300
    forward . ` + up.Addr + `
}
silent.example {
    ofpunt br-int
    metadata
    log . "[{name} {rcode}]"
    ` + tap + `
    forward . ` + silent.Addr + ` {
        max_connect_attempts 0
    }
}
`
	s := serve(t, n.Lab, text)
	a := &auditLoad{l: n.Lab, next: map[*lab.Guest]uint16{}, asked: map[auditKey]auditLine{}}
	ask := func(g *lab.Guest, protocol, resolver, name string, rcode int) {
		t.Helper()
		began := time.Now()
		r, err := a.ask(within(t, wait), g, protocol, resolver, name, auditLine{Rcode: dns.RcodeToString[rcode]})
		if err != nil || r.Rcode != rcode {
			t.Errorf("%s asks for %s over %s: %v, %v", g.Name, name, protocol, r, err)
		}
		if took := time.Since(began); rcode == dns.RcodeSuccess && took > wait/2 {
			t.Errorf("%s has an answer after %s", g.Name, took)
		}
	}
	all := func() {
		t.Helper()
		for _, g := range []*lab.Guest{n.red, n.blue} {
			for _, resolver := range resolvers {
				for _, protocol := range []string{"udp", "tcp"} {
					for _, name := range []string{"db.internal.", "www.example.", "www.example."} {
						ask(g, protocol, resolver, name, dns.RcodeSuccess)
					}
				}
			}
		}
	}
	all()
	ask(n.red, "udp", resolver4, "silent.example.", dns.RcodeServerFailure)
	s.log(`\[silent\.example\. `) // the chain has ended
	s.endWell()
	a.compareTap(t, c.stop(t), auditLines(t, log))
	lines, err := exec.Command("dnstap-read", c.file).CombinedOutput()
	if err != nil {
		t.Errorf("dnstap-read: %v: %s", err, lines)
	}
	for kind, want := range map[string]int{" CQ ": len(a.asked), " CR ": len(a.asked), " UDP ": -1, " TCP ": -1, " 10.0.1.11:": -1, " fd00:1::11:": -1} {
		if got := bytes.Count(lines, []byte(kind)); got != want && want >= 0 || got == 0 {
			t.Errorf("dnstap-read shows%s%d times, want %d", kind, got, want)
		}
	}

	// It hangs for a while, and has all messages in the end, ...
	c.start()
	s = serve(t, n.Lab, text)
	before := len(a.asked)
	all()
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	all()
	if got := s.metric("coredns_audit_dnstap_dropped_total"); got != 0 {
		t.Errorf("%v messages are lost while the collector hangs", got)
	}
	if err := c.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.endWell()
	responses := 0
	for _, d := range c.stop(t) {
		if d.GetMessage().GetType() == dnstap.Message_CLIENT_RESPONSE {
			responses++
		}
	}
	if want := len(a.asked) - before; responses != want {
		t.Errorf("a collector that hung has %d answers, want %d", responses, want)
	}
	// ... hangs, and goes, ...
	c.start()
	s = serve(t, n.Lab, text)
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	all()
	_ = c.Kill() // its status says that it was killed
	n.Eventually("messages that were lost", func() error {
		all() // the socket takes some before it tells
		if s.metric("coredns_audit_dnstap_dropped_total") == 0 {
			return errors.New("none is counted")
		}
		return nil
	})
	// ... and comes back.
	c.start()
	n.Eventually("messages after it has come back", func() error {
		ask(n.blue, "udp", resolver4, "db.internal.", dns.RcodeSuccess)
		if info, err := os.Stat(c.file); err != nil || info.Size() < 4096 {
			return fmt.Errorf("%v, %w", info, err)
		}
		return nil
	})
	s.endWell()
	if after := c.stop(t); len(after) == 0 || after[len(after)-1].GetMessage().GetType() != dnstap.Message_CLIENT_RESPONSE {
		t.Errorf("%d messages since", len(after))
	}
}

// compareTap checks that dnstap has told of each query once, and of its answer, with the identity
// and the ends that the audit log has.
func (a *auditLoad) compareTap(t *testing.T, all []*dnstap.Dnstap, log []auditLine) {
	t.Helper()
	ends := map[auditKey]auditLine{}
	for _, l := range log {
		ends[auditKey{l.Port, l.ID}] = l
	}
	queries, answers, forwarded := map[auditKey]int{}, map[auditKey]int{}, 0
	for _, d := range all {
		m := d.GetMessage()
		port := strings.Fields(string(d.GetExtra()))[1]
		wire, seen := m.GetQueryMessage(), queries
		switch m.GetType() {
		case dnstap.Message_FORWARDER_QUERY, dnstap.Message_FORWARDER_RESPONSE:
			forwarded++
			continue
		case dnstap.Message_CLIENT_RESPONSE:
			wire, seen = m.GetResponseMessage(), answers
		}
		q := new(dns.Msg)
		if err := q.Unpack(wire); err != nil {
			t.Fatal(err)
		}
		key := auditKey{port, q.Id}
		seen[key]++
		want := a.asked[key]
		l := ends[key]
		address, _ := netip.AddrFromSlice(m.GetQueryAddress())
		got := fmt.Sprint(string(d.GetExtra()), " ", address, " ", m.GetQueryPort(), " ", strings.ToLower(m.GetSocketProtocol().String()), " ", q.Question[0].Name)
		said := fmt.Sprint(l.Network, " ", want.Port, " ", want.Project, " ", net.JoinHostPort(want.Server, "53"), " ", l.Client, " ", l.ClientPort, " ", want.Protocol, " ", want.Name)
		if got != said || (m.GetSocketFamily() == dnstap.SocketFamily_INET) != address.Is4() {
			t.Errorf("%s %s: %s, want %s", m.GetType(), m.GetSocketFamily(), got, said)
		}
		if m.GetType() == dnstap.Message_CLIENT_RESPONSE && dns.RcodeToString[q.Rcode] != want.Rcode {
			t.Errorf("%s: %s, want %s", said, dns.RcodeToString[q.Rcode], want.Rcode)
		}
	}
	for key, want := range a.asked {
		if queries[key] != 1 || answers[key] != 1 {
			t.Errorf("%v %s: %d queries and %d answers", key, want.Name, queries[key], answers[key])
		}
	}
	if forwarded == 0 {
		t.Error("nothing of what forward has asked")
	}
}
