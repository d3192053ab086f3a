// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

const (
	// maxTraces bounds the guests whose queries are traced.
	maxTraces = 16
	// traceTimeout bounds one trace.
	traceTimeout = 5 * time.Second
	// routerMAC is where the query is sent: the switch looks at it behind the punt only.
	routerMAC = "0a:00:00:00:00:01"
)

// ovsAppctl is the tracer by ovs-appctl(8).
func ovsAppctl(target string) tracer {
	return func(ctx context.Context, bridge, flow string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, traceTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ovs-appctl", "-t", target, "ofproto/trace", bridge, flow).CombinedOutput()
		if err != nil {
			first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			return "", fmt.Errorf("ovs-appctl: %w %s", err, first)
		}
		return string(out), nil
	}
}

// traces traces a query of each guest through the switch.
func (d *diagnosis) traces(ctx context.Context, s *api.Status, all *api.Guests, trace tracer) {
	traced := 0
	for i := range all.Guests {
		g := &all.Guests[i]
		q, ok := queryOf(g)
		if !ok {
			continue
		}
		if traced++; traced > maxTraces {
			d.add(finding{Level: levelNote, About: "trace", Text: fmt.Sprintf("the first %d guests were traced only", maxTraces), Remedy: "name a PORT or a SWITCH for others"})
			return
		}
		said, err := trace(ctx, g.Bridge, q.flow())
		if err != nil {
			f := finding{Level: levelNote, About: "trace", Text: "queries can't be traced: " + err.Error(), Remedy: "run puntctl doctor as root on the node of the switch, or give --vswitchd SOCKET, or paste these:", Commands: q.lines()}
			if errors.Is(err, exec.ErrNotFound) {
				f.Text = "queries can't be traced: there is no ovs-appctl here"
				f.Remedy = "run puntctl doctor as root on the node of the switch, or paste these:"
			}
			d.add(f)
			return
		}
		d.traced(g, &q, said, entryTableOf(s, g.Bridge))
	}
}

// query is one that is traced. port is where it goes to, over TCP or UDP.
type query struct {
	guest    *api.Guest
	mac      string
	from, to netip.Addr
	port     uint16
	tcp      bool
}

// protocol returns the word of OVS and OVN for the protocol.
func (q *query) protocol() string {
	if q.tcp {
		return "tcp"
	}
	return "udp"
}

// queryOf returns a query of a guest, and reports whether enough is known of the guest.
func queryOf(g *api.Guest) (q query, ok bool) {
	q = query{guest: g, port: 53}
	if g.InPort == 0 || len(g.MACs) == 0 {
		return q, false
	}
	q.mac = g.MACs[0]
	for _, from := range g.Addresses {
		q.from, _ = netip.ParseAddr(from)
		for _, r := range g.Resolvers {
			if r == "any" {
				r = "192.0.2.53:53"
			}
			to, err := netip.ParseAddrPort(r)
			if err == nil && q.from.IsValid() && to.Addr().Is4() == q.from.Is4() {
				q.to, q.port = to.Addr(), to.Port()
				return q, true
			}
		}
	}
	return q, false
}

// flow returns the packet as ofproto/trace takes it (ovs-vswitchd(8)).
func (q *query) flow() string {
	protocol := q.protocol()
	kind, src, dst := protocol+"6", "ipv6_src", "ipv6_dst"
	if q.from.Is4() {
		kind, src, dst = protocol, "nw_src", "nw_dst"
	}
	flow := fmt.Sprintf("in_port=%d,%s,dl_src=%s,dl_dst=%s,%s=%s,%s=%s,nw_ttl=64,%s_src=50000,%s_dst=%d",
		q.guest.InPort, kind, q.mac, routerMAC, src, q.from, dst, q.to, protocol, protocol, q.port)
	if q.guest.VLAN != 0 {
		flow += fmt.Sprintf(",dl_vlan=%d", q.guest.VLAN)
	}
	return flow
}

// lines returns what to paste for a closer look.
func (q *query) lines() []string {
	ip := "ip6"
	if q.from.Is4() {
		ip = "ip4"
	}
	lines := []string{"ovs-appctl ofproto/trace " + shell.Word(q.guest.Bridge) + " " + shell.Word(q.flow())}
	if q.guest.PortKey != 0 {
		packet := fmt.Sprintf("inport == %s && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s.src == 50000 && %s.dst == %d",
			shell.OVNString(q.guest.Port), q.mac, routerMAC, ip, q.from, ip, q.to, q.protocol(), q.protocol(), q.port)
		lines = append(lines, "ovn-trace --ct=new "+shell.Word(q.guest.Network)+" "+shell.Word(packet))
	}
	return lines
}

// tableLine matches a line of a trace that tells the flow that has matched in a table.
var tableLine = regexp.MustCompile(`^\s*(\d+)\. (.*)$`)

// ourCookie is how the cookies of puntdns begin.
const ourCookie = "cookie 0x70646e"

// way is that of a packet through the switch, by a trace.
type way struct {
	// punted is set if the packet gets to the punt.
	punted bool
	// entered is set if it has met a flow of puntdns.
	entered bool
	// dropped is set if it goes nowhere. That is so of punted packets, too.
	dropped bool
	// table and flow are the last flow that it has met; of a punted packet that is the punt.
	table, flow string
}

// readTrace returns the way of a packet.
func readTrace(trace string) (w way) {
	w.dropped = strings.Contains(trace, "Datapath actions: drop")
	for line := range strings.Lines(trace) {
		m := tableLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		w.table, w.flow = m[1], m[2]
		ours := strings.Contains(w.flow, ourCookie)
		w.entered = w.entered || ours
		if w.table == "200" && ours && strings.Contains(w.flow, "priority 10,") {
			w.punted = true
			return w
		}
	}
	return w
}

// isDroppedBefore reports whether a packet is dropped before the table of the entry flows, which is nil
// where that is not known. One that has come through that table is dropped behind it for other reasons,
// such as the destination, which a trace makes up.
func (w *way) isDroppedBefore(entry *uint8) bool {
	if !w.dropped || w.punted || w.entered {
		return false
	}
	n, err := strconv.Atoi(w.table)
	return err != nil || entry == nil || n <= int(*entry)
}

// entryTableOf returns the table of the entry flows of a bridge, nil if it is not known.
func entryTableOf(s *api.Status, bridge string) *uint8 {
	for i := range s.Bridges {
		if b := &s.Bridges[i]; b.Name == bridge {
			return b.Placement.Table
		}
	}
	return nil
}

// Tables of OVN's logical ingress pipeline in the switch (ovn/controller/lflow.h): the first two are
// those of port security and of ports that are disabled, in each release.
const (
	physicalTable     = 0
	firstIngressTable = 8
	lastSecurityTable = 9
)

// flowCookie matches the cookie of a flow in a trace.
var flowCookie = regexp.MustCompile(`cookie (0x[0-9a-f]+)`)

// whyDropped returns what has dropped a packet in a table, and what to do about that. entry is the table
// of the entry flows, nil if it is not known: OVN drops nothing there.
func whyDropped(g *api.Guest, table string, entry *uint8) (text, remedy string) {
	n, err := strconv.Atoi(table)
	switch {
	case err != nil || g.PortKey == 0 || entry != nil && n == int(*entry):
		return "a flow of another program on the bridge drops it", "look for who has made that flow, by its cookie"
	case n == physicalTable:
		return "the bridge does not know the port of the guest", "ovn-controller makes that flow once it has bound the port: see its log"
	case n >= firstIngressTable && n <= lastSecurityTable:
		return "port security drops it, or the port is disabled", "the guest may only use the addresses in port_security of its logical port: add the one that it uses, or have it use one of these; and see that `enabled` is not false"
	}
	return "an ACL or a security group drops it", "allow UDP and TCP to port 53 of the resolver address from the guest"
}

// droppedCommands returns lines that show what has dropped a packet.
func droppedCommands(q *query, flow string) (lines []string) {
	if m := flowCookie.FindStringSubmatch(flow); m != nil && q.guest.PortKey != 0 {
		lines = append(lines, "ovn-sbctl lflow-list "+shell.Word(q.guest.Network)+" "+m[1]+"    # the logical flow")
	}
	return append(lines, q.lines()...)
}

// notPunted finds that the query of an explanation does not get to the punt.
func notPunted(e *api.Explanation, q *query, w *way) api.Problem {
	t := e.Trace
	p := api.Problem{Code: api.CodeNotPunted, About: e.Guest.Port, Commands: q.lines()}
	if !w.isDroppedBefore(e.EntryTable) {
		p.Text = fmt.Sprintf("the switch does not punt the query; the last flow that it meets is in table %s: %s", t.Table, t.Flow)
		p.Remedy = "the punt has expired, or the flows of puntdns are not there: see puntctl status"
		return p
	}
	why, remedy := whyDropped(&e.Guest, t.Table, e.EntryTable)
	p.Text = fmt.Sprintf("the switch drops the query of the guest before puntdns gets it: %s, in table %s: %s", why, t.Table, t.Flow)
	p.Remedy, p.Commands = remedy, droppedCommands(q, t.Flow)
	if e.Question.Assumed {
		p.Text += fmt.Sprintf("; OVN knows no address of the guest, so the trace was made with %s and %s", q.from, q.mac)
		p.Remedy += "; or give the address that the guest has by --from"
	}
	return p
}

// traced finds what a trace says. entry is the table of the entry flows, nil if it is not known.
func (d *diagnosis) traced(g *api.Guest, q *query, trace string, entry *uint8) {
	about := "port " + g.Port
	w := readTrace(trace)
	switch {
	case w.punted:
		d.add(finding{Level: levelOK, About: about, Text: fmt.Sprintf("a query to %s is punted", q.to)})
	case w.isDroppedBefore(entry):
		why, remedy := whyDropped(g, w.table, entry)
		d.add(finding{
			Level: levelProblem, About: about, Text: fmt.Sprintf("a query to %s is dropped before the punt: %s, in table %s: %s", q.to, why, w.table, w.flow),
			Remedy: remedy, Commands: droppedCommands(q, w.flow),
		})
	default:
		d.add(finding{
			Level: levelProblem, About: about, Text: fmt.Sprintf("a query to %s is not punted; the last flow that it meets is in table %s: %s", q.to, w.table, w.flow),
			Remedy: "the punt has expired, or the flows of this process are not there: see puntctl status", Commands: q.lines(),
		})
	}
}
