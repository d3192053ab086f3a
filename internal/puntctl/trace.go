// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

const (
	// maxTraces limits the guests that doctor traces without an argument.
	maxTraces    = 16
	traceTimeout = 5 * time.Second
	// routerMAC is the query's destination. The switch looks at it only after the punt.
	routerMAC = "0a:00:00:00:00:01"
)

type tracer struct {
	// trace returns the switch's output.
	trace func(ctx context.Context, bridge, flow string) (string, error)
	// logicalFlow returns the logical flow of a flow in the ingress pipeline of the guest's switch.
	logicalFlow func(ctx context.Context, g *api.Guest, h hop) (*api.LogicalFlow, error)
	// openings returns the open addresses of all guests, and the first time the error.
	openings func(ctx context.Context) ([]api.Opening, error)
}

// newTracer uses ovs-appctl(8), and asks the process once for each logical flow, since one may stop many guests, and for
// the open addresses.
func newTracer(target string, c *client) *tracer {
	type key struct {
		bridge, network string
		hop             hop
	}
	known := map[key]*api.LogicalFlow{}
	var egress *api.Egress
	openings := func(ctx context.Context) ([]api.Opening, error) {
		if egress != nil {
			return egress.Openings, nil
		}
		egress = new(api.Egress)
		err := c.get(ctx, api.PathEgress, nil, egress)
		if err == nil && len(egress.Errors) > 0 {
			err = errors.New(strings.Join(egress.Errors, "; "))
		}
		return egress.Openings, err
	}
	return &tracer{openings: openings, trace: ovsAppctl(target), logicalFlow: func(ctx context.Context, g *api.Guest, h hop) (*api.LogicalFlow, error) {
		k := key{g.Bridge, g.Network, h}
		if f := known[k]; f != nil {
			return f, nil
		}
		f, err := c.logicalFlow(ctx, g, h)
		if err == nil {
			known[k] = f
		}
		return f, err
	}}
}

func ovsAppctl(target string) func(ctx context.Context, bridge, flow string) (string, error) {
	return func(ctx context.Context, bridge, flow string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, traceTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ovs-appctl", "-t", target, "ofproto/trace", bridge, flow).CombinedOutput()
		if err != nil {
			first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			first = first[strings.LastIndex(first, "|")+1:] // without time, number, module and level
			if first != "" {
				first = ": " + first
			}
			return "", fmt.Errorf("ovs-appctl: %w%s", err, first)
		}
		return string(out), nil
	}
}

// traces traces queries over UDP and TCP and each address family of a guest: an ACL may drop only some.
func (d *diagnosis) traces(ctx context.Context, s *api.Status, all []api.Guest, t *tracer) {
	for i := range all {
		g := &all[i]
		queries := queriesOf(g)
		if len(queries) == 0 {
			d.add(finding{
				Level: levelNote, Code: api.CodeNotTraced, About: "port " + g.Port, Text: "its queries can't be traced: " + whyNoQueries(g),
				Remedy: "explain a query from the address that the guest uses, by `puntctl explain PORT NAME --from ADDRESS --server ADDRESS`",
			})
			continue
		}
		var of guestTraces
		for k := range queries {
			q := &queries[k]
			said, err := t.trace(ctx, g.Bridge, q.flow())
			if err != nil {
				d.add(untraceable(q, err))
				return
			}
			of.add(q, t.verdict(ctx, q, said, entryTableOf(s, g.Bridge)))
		}
		for _, v := range of {
			d.add(v.finding())
		}
		closed, err := t.egress(ctx, g, entryTableOf(s, g.Bridge))
		if err != nil {
			d.add(untraceable(&queries[0], err))
			return
		}
		d.Findings = append(d.Findings, closed...)
	}
}

// untraceable is the finding that the switch can't be asked.
func untraceable(q *query, err error) finding {
	f := finding{Level: levelNote, Code: api.CodeNotTraced, About: "trace", Text: "queries can't be traced: " + err.Error(), Remedy: "run puntctl doctor as root on the node of the switch, or give --vswitchd SOCKET, or paste these:", Commands: q.lines()}
	if errors.Is(err, exec.ErrNotFound) {
		f.Text = "queries can't be traced: there is no ovs-appctl here"
		f.Remedy = "run puntctl doctor as root on the node of the switch, or paste these:"
	}
	return f
}

// query is a query to trace. port is the destination port.
type query struct {
	guest    *api.Guest
	mac      string
	from, to netip.Addr
	port     uint16
	tcp, syn bool
	// assumed: the databases lack mac or from, and stand-ins are used.
	assumed bool
}

func (q *query) assumption() string {
	if !q.assumed {
		return ""
	}
	return fmt.Sprintf("; OVN knows no address of the guest, so the trace was made with %s and %s", q.from, q.mac)
}

func (q *query) protocol() string {
	if q.tcp {
		return "tcp"
	}
	return "udp"
}

// packetsOf returns, for each family, a packet from the guest's first address to port 53 of an address for
// documentation. A guest without an address gets the stand-ins of api.
func packetsOf(g *api.Guest) (all []query) {
	if g.InPort == 0 {
		return nil
	}
	for _, family := range []struct{ example, standIn string }{{"192.0.2.53", api.StandIn4}, {"2001:db8::53", api.StandIn6}} {
		q := query{guest: g, mac: api.StandInMAC, to: netip.MustParseAddr(family.example), port: dnsPort}
		q.from = firstAddress(g.Addresses, q.to.Is4())
		if len(g.Addresses) == 0 {
			q.from, q.assumed = netip.MustParseAddr(family.standIn), true
		}
		if len(g.MACs) > 0 {
			q.mac = g.MACs[0]
		} else {
			q.assumed = true
		}
		if q.from.IsValid() {
			all = append(all, q)
		}
	}
	return all
}

// queriesOf returns, for each family, a query to the guest's first resolver address over UDP and TCP. Hijack mode
// punts UDP only, to any address.
func queriesOf(g *api.Guest) (all []query) {
	for _, q := range packetsOf(g) {
		if slices.Contains(g.Resolvers, "any") {
			all = append(all, q)
			continue
		}
		if to := firstResolver(g.Resolvers, q.to.Is4()); to.IsValid() {
			q.to, q.port = to.Addr(), to.Port()
			overTCP := q
			overTCP.tcp = true
			all = append(all, q, overTCP)
		}
	}
	return all
}

func whyNoQueries(g *api.Guest) string {
	if g.InPort == 0 {
		return "the switch has given its interface no OpenFlow port"
	}
	return "it has no address of the family of a resolver address"
}

// firstResolver returns the zero AddrPort for none.
func firstResolver(resolvers []string, is4 bool) netip.AddrPort {
	for _, text := range resolvers {
		if a, err := netip.ParseAddrPort(text); err == nil && a.Addr().Is4() == is4 {
			return a
		}
	}
	return netip.AddrPort{}
}

// firstAddress returns the zero Addr for none.
func firstAddress(addresses []string, is4 bool) netip.Addr {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() == is4 {
			return a
		}
	}
	return netip.Addr{}
}

// flow returns the packet for ofproto/trace (ovs-vswitchd(8)).
func (q *query) flow() string {
	protocol := q.protocol()
	kind, src, dst := protocol+"6", "ipv6_src", "ipv6_dst"
	if q.from.Is4() {
		kind, src, dst = protocol, "nw_src", "nw_dst"
	}
	flow := fmt.Sprintf("in_port=%d,%s,dl_src=%s,dl_dst=%s,%s=%s,%s=%s,nw_ttl=64,%s_src=50000,%s_dst=%d",
		q.guest.InPort, kind, q.mac, routerMAC, src, q.from, dst, q.to, protocol, protocol, q.port)
	if q.syn {
		flow += ",tcp_flags=syn"
	}
	if q.guest.VLAN != 0 {
		flow += fmt.Sprintf(",dl_vlan=%d", q.guest.VLAN)
	}
	return flow
}

// lines returns commands for a closer look.
func (q *query) lines() []string {
	ip := family(q.from)
	lines := []string{"ovs-appctl ofproto/trace " + shell.Word(q.guest.Bridge) + " " + shell.Word(q.flow())}
	if q.guest.PortKey != 0 {
		packet := fmt.Sprintf("inport == %s && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s.src == 50000 && %s.dst == %d",
			shell.OVNString(q.guest.Port), q.mac, routerMAC, ip, q.from, ip, q.to, q.protocol(), q.protocol(), q.port)
		lines = append(lines, "ovn-trace --ct=new "+shell.Word(q.guest.Network)+" "+shell.Word(packet))
	}
	return lines
}

// tableLine matches a table's flow in a trace.
var tableLine = regexp.MustCompile(`^\s*(\d+)\. (.*)$`)

// ourCookie begins the cookies of puntdns.
const ourCookie = "cookie 0x70646e"

// setOutport matches OVN's setting of the output port.
var setOutport = regexp.MustCompile(`^\s*set_field:(0x[0-9a-f]+)->reg15$`)

// toGroup matches OVN's action to a load balancer. A trace ends there.
var toGroup = regexp.MustCompile(`^\s*group:\d`)

// readsTuple matches how OVN 26.03 reads a connection's destination for its load balancers. A trace does not
// know the destination, and goes on as if no load balancer matched.
var readsTuple = regexp.MustCompile(`^\s*move:NXM_NX_CT_(NW|TP|IPV6)_`)

// setVerdict matches an ACL's verdict in reg8, a half of xreg4. OVN after 23.03 drops and rejects two tables
// later, by a flow on reg8 that all ACLs share.
var setVerdict = regexp.MustCompile(`^\s*set_field:0x[0-9a-f]+(/0x[0-9a-f]+)?->(xreg4|reg8)$`)

// setMark matches how puntdns marks packets to open addresses.
var setMark = regexp.MustCompile(`^\s*set_field:(0x[0-9a-f]+)/0x[0-9a-f]+->pkt_mark$`)

// hop is a flow that a packet matches.
type hop struct {
	table int
	flow  string
}

func (h hop) String() string { return fmt.Sprintf("table %d: %s", h.table, h.flow) }

// way is the path of a packet in a trace.
type way struct {
	// punted: the packet reaches the punt.
	punted bool
	// entered: the packet has matched a flow of puntdns for queries.
	entered bool
	// passed: the packet has reached the entry table. Later flows may be of another bridge or pipeline.
	passed bool
	// marks are the bits of pkt_mark that flows have set.
	marks uint32
	// dropped: the switch outputs nothing, as with a punt.
	dropped bool
	// last is the last matched flow: the punt for a punted packet.
	last hop
	// before is the last matched flow up to the entry table, or last if the table is unknown.
	before hop
	// acl is the ACL's flow whose verdict before has applied, or before.
	acl hop
	// outport is the tunnel key of the port to which before sends, 0 for none.
	outport uint32
	// balanced: before sends to a load balancer.
	balanced bool
	// mayBalance: a load balancer may take the packet, unseen by the trace.
	mayBalance bool
}

// egressTable is placement.EgressTable.
const egressTable = 203

// readTrace takes the table of the entry flows, nil if unknown.
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
	judged hop // the last flow that has stored a verdict
}

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
	// The flows of egress stand in tables before the entry table, and in their own.
	r.entered = r.entered || ours && h.table != egressTable && (r.entry == nil || h.table >= int(*r.entry))
	r.punted = h.table == 200 && ours && strings.Contains(h.flow, "priority 10,")
}

func (r *traceReader) action(line string) {
	r.balanced = r.balanced || toGroup.MatchString(line)
	r.mayBalance = r.mayBalance || readsTuple.MatchString(line)
	if set := setOutport.FindStringSubmatch(line); set != nil && r.outport == 0 {
		key, _ := strconv.ParseUint(set[1], 0, 32)
		r.outport = uint32(key)
	}
	if set := setMark.FindStringSubmatch(line); set != nil {
		bits, _ := strconv.ParseUint(set[1], 0, 32)
		r.marks |= uint32(bits)
	}
	if setVerdict.MatchString(line) && r.before.table > lastSecurityTable {
		r.judged = r.before
	}
}

// isStopped reports whether a packet stops before the entry table (nil if unknown). Behind it, packets are
// dropped for other reasons, such as the trace's made-up destination.
func (w *way) isStopped(g *api.Guest, entry *uint8) bool {
	switch {
	case w.punted || w.entered:
		return false
	case entry == nil:
		return w.dropped
	case w.dropped && w.last == w.before:
		return true
	}
	// OVN's pipeline has a flow for each packet in each table, so a trace that ends earlier was stopped.
	return g.PortKey != 0 && w.before.flow != "" && w.before.table < int(*entry)
}

// stoppedBy returns the flow that an operator has to examine.
func (w *way) stoppedBy() hop {
	if w.outport != 0 {
		return w.before
	}
	return w.acl
}

// whyNotTraced returns why the trace shows no verdict, else "".
func (w *way) whyNotTraced(g *api.Guest, entry *uint8) string {
	switch {
	case w.balanced && w.isStopped(g, entry):
		return fmt.Sprintf("it goes to a load balancer of OVN, where a trace ends, in %s", w.before)
	case w.punted && w.mayBalance:
		return "the switch has load balancers of OVN, and a trace does not show what goes to one"
	}
	return ""
}

// entryTableOf returns nil if unknown.
func entryTableOf(s *api.Status, bridge string) *uint8 {
	for i := range s.Bridges {
		if b := &s.Bridges[i]; b.Name == bridge {
			return b.Placement.Table
		}
	}
	return nil
}

func (t *tracer) notPunted(ctx context.Context, e *api.Explanation, q *query, w *way) api.Problem {
	p := api.Problem{Code: api.CodeNotPunted, About: e.Guest.Port, Commands: q.lines()}
	if !w.isStopped(&e.Guest, e.EntryTable) {
		p.Text = fmt.Sprintf("the switch does not punt the query; the last flow that it meets is in %s", w.last)
		p.Remedy = "the punt has expired, or the flows of puntdns are not there: see puntctl status"
		return p
	}
	why := t.whyStopped(ctx, q, w, e.EntryTable)
	does := "drops the query of the guest before puntdns gets it"
	if w.outport != 0 {
		does = "does not punt the query of the guest"
	}
	p.Text = fmt.Sprintf("the switch %s: %s, in %s", does, why.text, w.stoppedBy())
	p.Text += q.assumption()
	p.Remedy, p.Commands = why.remedy, why.commands
	if q.assumed {
		p.Remedy += "; or give the address that the guest has by --from"
	}
	return p
}

// guestTraces has the verdicts on a guest's queries, each once.
type guestTraces []tracedQueries

type tracedQueries struct {
	// verdict is a finding whose text lacks the queries.
	verdict finding
	queries []string
}

func (v *tracedQueries) finding() finding {
	f := v.verdict
	f.Text = "queries " + strings.Join(v.queries, ", ") + " " + f.Text
	return f
}

func (all *guestTraces) add(q *query, v finding) {
	v.About = "port " + q.guest.Port
	for i := range *all {
		if same := &(*all)[i]; same.verdict.Text == v.Text {
			same.name(q)
			return
		}
	}
	of := tracedQueries{verdict: v}
	of.name(q)
	*all = append(*all, of)
}

// name adds a query, and joins its protocols: "to 169.254.169.254 over UDP and TCP".
func (v *tracedQueries) name(q *query) {
	to, protocol := fmt.Sprintf("to %s over ", q.to), strings.ToUpper(q.protocol())
	if n := len(v.queries); n > 0 && strings.HasPrefix(v.queries[n-1], to) {
		v.queries[n-1] += " and " + protocol
		return
	}
	v.queries = append(v.queries, to+protocol)
}

// verdict takes the table of the entry flows, nil if unknown.
func (t *tracer) verdict(ctx context.Context, q *query, trace string, entry *uint8) finding {
	g, w := q.guest, readTrace(trace, entry)
	notTraced := w.whyNotTraced(g, entry)
	switch {
	case notTraced != "":
		return finding{Level: levelNote, Code: api.CodeNotTraced, Text: "can't be traced: " + notTraced, Commands: q.lines()}
	case w.punted:
		return finding{Level: levelOK, Text: "are punted" + q.assumption()}
	case w.isStopped(g, entry):
		why := t.whyStopped(ctx, q, &w, entry)
		are := "are dropped before the punt"
		if w.outport != 0 {
			are = "are not punted"
		}
		return finding{
			Level: levelProblem, Code: api.CodeNotPunted, Text: fmt.Sprintf("%s: %s, in %s", are, why.text, w.stoppedBy()) + q.assumption(),
			Remedy: why.remedy, Commands: why.commands,
		}
	}
	return finding{
		Level: levelProblem, Code: api.CodeNotPunted, Text: fmt.Sprintf("are not punted; the last flow that they match is in %s", w.last),
		Remedy: "the punt has expired, or the flows of this process are not there: see puntctl status", Commands: q.lines(),
	}
}
