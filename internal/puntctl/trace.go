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

// setOutport matches the action by which a flow of OVN chooses the port that a packet leaves by.
var setOutport = regexp.MustCompile(`^\s*set_field:(0x[0-9a-f]+)->reg15$`)

// toGroup matches the action by which a flow of OVN gives a packet to a load balancer. A trace ends there.
var toGroup = regexp.MustCompile(`^\s*group:\d`)

// setVerdict matches the action by which the flow of an ACL leaves a verdict in reg8, which is a half of xreg4.
// OVN after 23.03 drops and rejects two tables later, by a flow that all ACLs share and that matches reg8.
var setVerdict = regexp.MustCompile(`^\s*set_field:0x[0-9a-f]+(/0x[0-9a-f]+)?->(xreg4|reg8)$`)

// hop is a flow that a packet meets.
type hop struct {
	table int
	flow  string
}

func (h hop) String() string { return fmt.Sprintf("table %d: %s", h.table, h.flow) }

// way is that of a packet through the switch, by a trace.
type way struct {
	// punted is set if the packet gets to the punt.
	punted bool
	// entered is set if the packet has met a flow of puntdns.
	entered bool
	// dropped is set if the packet goes nowhere. That is so of punted packets, too.
	dropped bool
	// last is the last flow that the packet has met; of a punted packet that is the punt.
	last hop
	// before is the last flow that the packet has met up to the table of the entry flows, or last
	// where that table is not known.
	before hop
	// acl is the flow of the ACL by whose verdict before has acted, or before.
	acl hop
	// outport is the tunnel key of the port that before has sent the packet to, 0 for none.
	outport uint32
	// balanced is set if before has given the packet to a load balancer.
	balanced bool
}

// readTrace returns the way of a packet. entry is the table of the entry flows, nil if it is not known.
func readTrace(trace string, entry *uint8) way {
	r := traceReader{entry: entry}
	r.dropped = strings.Contains(trace, "Datapath actions: drop")
	for line := range strings.Lines(trace) {
		line = strings.TrimRight(line, "\n")
		m := tableLine.FindStringSubmatch(line)
		if m == nil {
			r.action(line)
			continue
		}
		table, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		if r.meets(hop{table, m[2]}); r.punted {
			break
		}
	}
	return r.way
}

type traceReader struct {
	way
	entry  *uint8
	passed bool // the table of the entry flows: what follows may be another bridge or pipeline
	judged hop  // the last flow that has left a verdict
}

// meets reads the line of a flow.
func (r *traceReader) meets(h hop) {
	r.last = h
	if r.entry == nil || !r.passed && h.table <= int(*r.entry) {
		r.before, r.acl, r.outport, r.balanced = h, h, 0, false
		if strings.Contains(h.flow, "reg8=") && r.judged.flow != "" {
			r.acl = r.judged
		}
	}
	r.passed = r.passed || r.entry != nil && h.table == int(*r.entry)
	ours := strings.Contains(h.flow, ourCookie)
	r.entered = r.entered || ours
	r.punted = h.table == 200 && ours && strings.Contains(h.flow, "priority 10,")
}

// action reads the line of an action of the last flow.
func (r *traceReader) action(line string) {
	r.balanced = r.balanced || toGroup.MatchString(line)
	if set := setOutport.FindStringSubmatch(line); set != nil && r.outport == 0 {
		key, _ := strconv.ParseUint(set[1], 0, 32)
		r.outport = uint32(key)
	}
	if setVerdict.MatchString(line) && r.before.table > lastSecurityTable {
		r.judged = r.before
	}
}

// isStopped reports whether a packet is kept from the table of the entry flows, which is nil where that
// is not known. A packet that has come through that table is dropped behind it for other reasons, such as
// the destination, which a trace makes up.
func (w *way) isStopped(g *api.Guest, entry *uint8) bool {
	switch {
	case w.punted || w.entered:
		return false
	case entry == nil:
		return w.dropped
	case w.dropped && w.last == w.before:
		return true
	}
	// OVN's pipeline has a flow for each packet in each table.
	return g.PortKey != 0 && w.before.flow != "" && w.before.table < int(*entry)
}

// stoppedBy returns the flow that an operator has to look at.
func (w *way) stoppedBy() hop {
	if w.outport != 0 {
		return w.before
	}
	return w.acl
}

// isBalanced reports whether a packet gets to a load balancer before the table of the entry flows.
func (w *way) isBalanced(g *api.Guest, entry *uint8) bool { return w.balanced && w.isStopped(g, entry) }

// balanced is the reason why a packet can't be traced further.
const balanced = "it goes to a load balancer of OVN, where a trace ends"

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

// allowDNS is what to do about an ACL that keeps queries from the entry flows, and bypass what to add
// where the ACL may have a network function.
const (
	allowDNS = "allow UDP and TCP to port 53 of the resolver address from the guest"
	bypass   = " by an ACL of a higher priority, which has no network_function_group"
)

// whyStopped returns what keeps a packet from the entry flows, and what to do about that. entry is the
// table of the entry flows, nil if it is not known: OVN drops nothing there.
func whyStopped(g *api.Guest, w *way, entry *uint8) (text, remedy string) {
	table := w.before.table
	switch {
	case g.PortKey == 0 || entry != nil && table == int(*entry):
		return "a flow of another program on the bridge drops it", "look for who has made that flow, by its cookie"
	case w.outport != 0:
		return whySent(g, w.outport)
	case table == physicalTable:
		return "the bridge does not know the port of the guest", "ovn-controller makes that flow once it has bound the port: see its log"
	case table >= firstIngressTable && table <= lastSecurityTable:
		return "port security drops it, or the port is disabled", "the guest may only use the addresses in port_security of its logical port: add the one that it uses, or have it use one of these; and see that `enabled` is not false"
	}
	text, remedy = "an ACL or a security group drops it", allowDNS
	if !w.dropped {
		text = "an ACL or a security group drops or rejects it"
	}
	if len(g.FunctionPorts) > 0 {
		text, remedy = text+", or sends it through a network function that is not active", remedy+bypass
	}
	return text, remedy
}

// whySent returns why OVN sends a packet to a port instead of to the entry flows. The logical flow of
// [stoppedCommands] names the port and the stage.
func whySent(g *api.Guest, outport uint32) (text, remedy string) {
	for _, f := range g.FunctionPorts {
		if f.PortKey == outport {
			return fmt.Sprintf("an ACL sends it through a network function, by port %q", f.Port), allowDNS + bypass
		}
	}
	return "OVN sends it to another port, as to that of a network function", allowDNS + bypass
}

// stoppedCommands returns lines that show the flow by which a packet is kept from the entry flows.
func stoppedCommands(q *query, flow string) (lines []string) {
	if m := flowCookie.FindStringSubmatch(flow); m != nil && q.guest.PortKey != 0 {
		lines = append(lines, "ovn-sbctl lflow-list "+shell.Word(q.guest.Network)+" "+m[1]+"    # the logical flow")
	}
	return append(lines, q.lines()...)
}

// notPunted finds that the query of an explanation does not get to the punt.
func notPunted(e *api.Explanation, q *query, w *way) api.Problem {
	p := api.Problem{Code: api.CodeNotPunted, About: e.Guest.Port, Commands: q.lines()}
	if !w.isStopped(&e.Guest, e.EntryTable) {
		p.Text = fmt.Sprintf("the switch does not punt the query; the last flow that it meets is in %s", w.last)
		p.Remedy = "the punt has expired, or the flows of puntdns are not there: see puntctl status"
		return p
	}
	why, remedy := whyStopped(&e.Guest, w, e.EntryTable)
	does := "drops the query of the guest before puntdns gets it"
	if w.outport != 0 {
		does = "does not punt the query of the guest"
	}
	p.Text = fmt.Sprintf("the switch %s: %s, in %s", does, why, w.stoppedBy())
	p.Remedy, p.Commands = remedy, stoppedCommands(q, w.stoppedBy().flow)
	if e.Question.Assumed {
		p.Text += fmt.Sprintf("; OVN knows no address of the guest, so the trace was made with %s and %s", q.from, q.mac)
		p.Remedy += "; or give the address that the guest has by --from"
	}
	return p
}

// traced finds what a trace says. entry is the table of the entry flows, nil if it is not known.
func (d *diagnosis) traced(g *api.Guest, q *query, trace string, entry *uint8) {
	about := "port " + g.Port
	w := readTrace(trace, entry)
	switch {
	case w.punted:
		d.add(finding{Level: levelOK, About: about, Text: fmt.Sprintf("a query to %s is punted", q.to)})
	case w.isBalanced(g, entry):
		d.add(finding{Level: levelNote, About: about, Text: fmt.Sprintf("a query to %s can't be traced: %s, in %s", q.to, balanced, w.before), Commands: q.lines()})
	case w.isStopped(g, entry):
		why, remedy := whyStopped(g, &w, entry)
		is := "dropped before the punt"
		if w.outport != 0 {
			is = "not punted"
		}
		d.add(finding{
			Level: levelProblem, About: about, Text: fmt.Sprintf("a query to %s is %s: %s, in %s", q.to, is, why, w.stoppedBy()),
			Remedy: remedy, Commands: stoppedCommands(q, w.stoppedBy().flow),
		})
	default:
		d.add(finding{
			Level: levelProblem, About: about, Text: fmt.Sprintf("a query to %s is not punted; the last flow that it meets is in %s", q.to, w.last),
			Remedy: "the punt has expired, or the flows of this process are not there: see puntctl status", Commands: q.lines(),
		})
	}
}
