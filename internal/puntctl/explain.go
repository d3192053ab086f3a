// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
)

func explainCommand(o *options) *cobra.Command {
	var server, from, vswitchd string
	var tcp, summary bool
	cmd := &cobra.Command{
		Use:   "explain PORT NAME [TYPE]",
		Short: "Show each step of a query of one guest, and its answer",
		Long: `explain runs a query of a guest through puntdns, and shows each step: the
guest's flows in the switch, a trace that shows whether the query reaches
puntdns, the views and the server block, the decision and the time of each
plugin, and the answer. It also shows what the guest would get without puntdns.
Problems come first, each with its remedy.

PORT is a logical port, an interface, or an IP address or a MAC address that
only one guest has. NAME is a full domain name, with or without a dot at its
end. TYPE is A by default.

explain sends nothing to the guest, stores nothing in the cache, and writes no
log. The plugins ask their upstreams. The trace needs root and ovs-appctl, and
changes nothing in the switch.

Exit status:
  0  the guest gets records, or the name has none of the type, or the query
     continues to its server
  1  there is a problem, or there is no such name or guest
  2  the command line is wrong
  3  puntdns does not run, has no control socket, or refuses this user
  4  nothing is wrong, but there is no trace, so the switch may still drop the
     query`,
		Example: `  puntctl explain red-vm1 db.cloud.internal
  puntctl explain tap0 www.example.org AAAA --summary
  puntctl explain red-vm1 www.example.org --server 9.9.9.9 --tcp`,
		Args:              needs(2),
		ValidArgsFunction: o.completeQuery,
		RunE: func(cmd *cobra.Command, args []string) error {
			parameters := url.Values{"port": {args[0]}, "name": {args[1]}, "server": {server}, "from": {from}, "tcp": {strconv.FormatBool(tcp)}}
			if len(args) > 2 {
				parameters.Set("type", args[2])
			}
			t := newTracer(vswitchd, o.client(cmd))
			e, err := o.explained(cmd, parameters, t)
			if err != nil {
				return named(cmd, err)
			}
			if !tcp && has(e, api.CodeTruncated) {
				parameters.Set("tcp", "true")
				overTCP, err := o.explained(cmd, parameters, t)
				addFindings(e, nil, moreOverTCP(e, overTCP, err))
			}
			show := func(p *page) { p.explanation(e, drawing(cmd.OutOrStdout())) }
			if summary {
				show = func(p *page) { p.explainSummary(e) }
			}
			if err := o.write(cmd.OutOrStdout(), e, show); err != nil {
				return err
			}
			switch {
			case !e.Well:
				return errUnwell
			case has(e, api.CodeNotTraced):
				return errNotTraced
			default:
				return nil
			}
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&tcp, "tcp", false, "ask over TCP")
	flags.BoolVar(&summary, "summary", false, "show only the answer and the problems")
	flags.StringVar(&server, "server", "", "address, with or without a port, of the DNS server that the guest asks (default: the resolver address that DHCP announces)")
	flags.StringVar(&from, "from", "", "address of the guest that sends the query (default: the first one in OVN)")
	flags.StringVar(&vswitchd, "vswitchd", "ovs-vswitchd", "target of ovs-appctl(8)")
	return cmd
}

func (o *options) explained(cmd *cobra.Command, parameters url.Values, t *tracer) (*api.Explanation, error) {
	var e api.Explanation
	if err := o.client(cmd).get(cmd.Context(), api.PathExplain, parameters, &e); err != nil {
		return nil, err
	}
	addFindings(&e, t.explained(cmd.Context(), &e), routeExplained(&e))
	return &e, nil
}

// moreOverTCP returns findings only of the query over TCP, which follows a truncated answer. An error of that
// explanation is a finding, too.
func moreOverTCP(udp, tcp *api.Explanation, err error) (more []api.Problem) {
	const over = "over TCP, which the guest uses next: "
	if err != nil {
		return []api.Problem{{Code: api.CodeNotTraced, About: udp.Guest.Port, Text: over + err.Error(), Remedy: "explain the query again, with --tcp"}}
	}
	for _, p := range tcp.Findings {
		isKnown := slices.ContainsFunc(udp.Findings, func(u api.Problem) bool { return u.Code == p.Code && u.Text == p.Text })
		if !isKnown && (p.Code == api.CodeNotTraced || !remedy.IsNote(p.Code)) {
			p.Text = over + p.Text
			more = append(more, p)
		}
	}
	return more
}

// addFindings adds puntctl's findings before and after the process's. They may clear Well, but never set it.
func addFindings(e *api.Explanation, first, last []api.Problem) {
	e.Well = e.Well && remedy.Well(first) && remedy.Well(last)
	e.Findings = append(slices.Insert(e.Findings, 0, first...), last...)
	remedy.FillExplanation(e)
}

const untraced = "no trace shows whether the switch sends the query to puntdns: "

// explained returns a finding if the query does not reach the punt, or there is no trace.
func (t *tracer) explained(ctx context.Context, e *api.Explanation) []api.Problem {
	q, ok := explainedQuery(e)
	if !ok {
		return nil // the process has a finding about the missing data
	}
	lines := q.lines()
	notTraced := func(why string) []api.Problem {
		if e.Unasked != "" {
			return nil
		}
		return []api.Problem{{Code: api.CodeNotTraced, About: e.Guest.Port, Text: untraced + why, Commands: lines}}
	}
	e.Trace = &api.Trace{Command: lines[0]}
	said, err := t.trace(ctx, e.Guest.Bridge, q.flow())
	if err != nil {
		e.Trace.Error = err.Error()
		return notTraced(e.Trace.Error)
	}
	shown, w := e.Trace, readTrace(said, e.EntryTable)
	if shown.Error = w.whyNotTraced(&e.Guest, e.EntryTable); shown.Error != "" {
		all := notTraced(shown.Error)
		for i := range all {
			all[i].Remedy = "follow the query with ovn-trace, which goes through load balancers"
			all[i].Commands = lines[len(lines)-1:]
		}
		return all
	}
	shown.Punted, shown.Table, shown.Flow = w.punted, strconv.Itoa(w.last.table), w.last.flow
	shown.Dropped = w.dropped && !w.punted
	if shown.Punted || e.Unasked != "" {
		return nil
	}
	return []api.Problem{t.notPunted(ctx, e, &q, &w)}
}

// routeExplained returns a note if DHCP gives no route to the server; the image may have a route. Not in
// hijack mode.
func routeExplained(e *api.Explanation) []api.Problem {
	g := &e.Guest
	server, err := netip.ParseAddrPort(e.Question.Server)
	if err != nil || !server.Addr().Is4() || e.Unasked != "" || g.DHCP == nil || len(g.DHCPResolvers()) == 0 {
		return nil
	}
	reason := noRoute(g.DHCP, server.Addr())
	if reason == "" {
		return nil
	}
	return []api.Problem{{
		Code: api.CodeNoRoute, About: g.Port,
		Text:     fmt.Sprintf("DHCP gives the guest no route to %s: %s; unless it was given one by hand or by its image, its query never leaves it", server.Addr(), reason),
		Commands: setRoute(g.DHCP, server.Addr()),
	}}
}

// explainedQuery returns ok false if too little is known.
func explainedQuery(e *api.Explanation) (q query, ok bool) {
	server, err := netip.ParseAddrPort(e.Question.Server)
	client, clientErr := netip.ParseAddrPort(e.Question.Client)
	if err != nil || clientErr != nil || e.Guest.InPort == 0 {
		return q, false
	}
	return query{guest: &e.Guest, mac: e.Question.ClientMAC, from: client.Addr(), to: server.Addr(), port: server.Port(), tcp: e.Question.TCP, assumed: e.Question.Assumed}, true
}

type tree struct{ branch, last, stem, gap string }

var (
	boxTree   = tree{"├─ ", "└─ ", "│  ", "   "}
	plainTree = tree{"|- ", "`- ", "|  ", "   "}
)

// drawing uses box characters only on a terminal with UTF-8.
func drawing(w io.Writer) *tree {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	if isTerminal(w) && (strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")) {
		return &boxTree
	}
	return &plainTree
}

type node struct {
	line  []cell
	below []*node
}

func newNode(cells ...cell) *node { return &node{line: cells} }

func (n *node) add(cells ...cell) *node {
	c := newNode(cells...)
	n.below = append(n.below, c)
	return c
}

func (n *node) addf(format string, args ...any) *node {
	return n.add(said(fmt.Sprintf(format, args...)))
}

func (p *page) nodes(all []*node, t *tree, indent string) {
	for i, n := range all {
		branch, stem := t.branch, t.stem
		if i == len(all)-1 {
			branch, stem = t.last, t.gap
		}
		p.line(append([]cell{{text: strings.TrimSuffix(indent+branch, " ")}}, n.line...)...)
		p.nodes(n.below, t, indent+stem)
	}
}

func (p *page) explainSummary(e *api.Explanation) {
	p.line(in(verdictColour(e), outcomeOf(e)))
	for i := range e.Findings {
		f := &e.Findings[i]
		level := in(red, "not well:")
		if remedy.IsNote(f.Code) {
			level = in(yellow, "warning:")
		}
		p.line(level, said(f.Text), said("["+f.Code+"]"))
		p.remedy("          ", f.Remedy, f.Commands)
	}
}

func verdictColour(e *api.Explanation) colour {
	if e.Well {
		return green
	}
	return red
}

func outcomeOf(e *api.Explanation) string {
	who := fmt.Sprintf("port %s asks %s for %s %s: ", e.Guest.Port, e.Question.Server, e.Question.Name, e.Question.Type)
	if e.Question.Server == "" {
		who = fmt.Sprintf("port %s asks for %s %s: ", e.Guest.Port, e.Question.Name, e.Question.Type)
	}
	answer := strings.Join(append([]string{e.Rcode}, firstOf(recordsOf(e.Answer))...), " ")
	switch {
	case e.Unasked != "":
		return who + "puntdns is not asked, as " + e.Unasked
	case isKept(e) && e.Rcode != "":
		return who + "the query does not get to puntdns, whose answer would be " + answer
	case isKept(e):
		return who + "the query does not get to puntdns"
	case e.Rcode != "":
		return who + answer
	case e.Result == "resumed":
		return fmt.Sprintf("%spuntdns lets it pass on to %s, whose answer the guest gets (%s)", who, e.Question.Server, e.Reason)
	case e.Result != "":
		return fmt.Sprintf("%sno answer (%s, %s)", who, e.Result, e.Reason)
	}
	return who + "puntdns is not asked"
}

// firstOf shortens records for the first line.
func firstOf(records []string) (all []string) {
	const mostRecords, mostBytes = 8, 80
	for i, data := range records {
		if i == mostRecords {
			return append(all, fmt.Sprintf("and %d more", len(records)-i))
		}
		if len(data) > mostBytes {
			data = strings.ToValidUTF8(data[:mostBytes], "") + "..."
		}
		all = append(all, data)
	}
	return all
}

// isKept reports whether something stops the query before the process.
func isKept(e *api.Explanation) bool {
	return has(e, api.CodeNotPunted, api.CodeNoFlows, api.CodeLease)
}

func has(e *api.Explanation, codes ...string) bool {
	return slices.ContainsFunc(e.Findings, func(f api.Problem) bool { return slices.Contains(codes, f.Code) })
}

// recordsOf returns the RDATA of the answer section in dig's format.
func recordsOf(answer string) (all []string) {
	_, section, _ := strings.Cut(answer, ";; ANSWER SECTION:\n")
	section, _, _ = strings.Cut(section, "\n\n")
	for line := range strings.Lines(section) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, strings.Join(fields[4:], " "))
		}
	}
	return all
}

func (p *page) explanation(e *api.Explanation, t *tree) {
	p.explainSummary(e)
	all := []*node{guestNode(e), switchNode(e)}
	if len(e.Labels) > 0 {
		all = append(all, blockNode(e))
	}
	if len(e.Steps) > 0 {
		all = append(all, pluginsNode(e))
	}
	if e.Answer != "" {
		n := newNode(said("answer"))
		for line := range strings.Lines(strings.TrimSpace(e.Answer)) {
			if line = strings.TrimSpace(line); line != "" {
				n.addf("%s", strings.ReplaceAll(line, "\t", " "))
			}
		}
		all = append(all, n)
	}
	all = append(all, newNode(said("without puntdns: "+e.Without)))
	effects := newNode(said("what this has changed"))
	for _, text := range e.Effects {
		effects.addf("%s", text)
	}
	p.nodes(append(all, effects), t, "")
}

func guestNode(e *api.Explanation) *node {
	g := &e.Guest
	n := newNode(said(fmt.Sprintf("guest: port %s, switch %s (%s)", g.Port, cmp.Or(g.Switch, "unknown"), cmp.Or(g.Network, "unknown"))))
	n.addf("bridge %s, interface %s, in_port %d, VLAN %d", g.Bridge, cmp.Or(g.Interface, "unknown"), g.InPort, g.VLAN)
	n.addf("addresses %s, MAC %s", cmp.Or(strings.Join(g.Addresses, " "), "unknown"), cmp.Or(strings.Join(g.MACs, " "), "unknown"))
	if e.Question.Assumed {
		n.addf("the databases know none of the family that is asked for: %s and %s stand in", e.Question.Client, e.Question.ClientMAC)
	}
	n.addf("resolver addresses %s", strings.Join(g.Resolvers, " "))
	if g.DHCP != nil {
		n.addf("DHCP announces dns_server %s, domain_name %s", cmp.Or(g.DHCP.DNSServer, "none"), cmp.Or(g.DHCP.DomainName, "none"))
	}
	return n
}

func switchNode(e *api.Explanation) *node {
	n := newNode(said("switch"))
	if e.FlowsError != "" {
		n.add(in(yellow, "its flows are not known: "+e.FlowsError))
	}
	for i := range e.Flows {
		f := &e.Flows[i]
		n.addf("table %d, priority %d, %s: %d packets, %s", f.Table, f.Priority, f.For, f.Packets, f.Match)
	}
	switch t := e.Trace; {
	case t == nil:
	case t.Error != "":
		n.add(in(yellow, "no trace: "+t.Error)).addf("%s", t.Command)
	case t.Punted:
		n.add(in(green, "a trace of the query comes to the punt"))
	default:
		n.add(in(red, fmt.Sprintf("a trace of the query ends in table %s: %s", t.Table, t.Flow))).addf("%s", t.Command)
	}
	return n
}

func blockNode(e *api.Explanation) *node {
	n := newNode(said("server block: " + cmp.Or(e.Block, "none")))
	if e.View != "" {
		n.addf("view %s", e.View)
	}
	for i := range e.Views {
		v := &e.Views[i]
		state := in(yellow, "does not match")
		if v.Matches {
			state = in(green, "matches")
		}
		view := n.add(said(fmt.Sprintf("view %s of %s", v.Name, v.Block)), state)
		for _, x := range v.Expressions {
			view.addf("%s: %s", x.Text, cmp.Or(x.Value, x.Error))
		}
		for _, l := range v.Labels {
			view.addf("%s = %q", l.Name, l.Value)
		}
	}
	labels := n.addf("labels")
	for _, l := range e.Labels {
		labels.addf("%s = %s", l.Name, cmp.Or(l.Value, "(empty)"))
	}
	return n
}

func pluginsNode(e *api.Explanation) *node {
	root := newNode(said("plugins: "+micros(e.Seconds)), said("("+cmp.Or(e.Result, "none")+", "+cmp.Or(e.Reason, "none")+")"))
	for _, text := range e.Notes {
		root.addf("%s", text)
	}
	// Each plugin calls the next: a tree would only be deep.
	for i := 0; i < len(e.Steps); i++ {
		s := &e.Steps[i]
		plugin, verdict := s.Plugin, said(s.Verdict)
		for leftSilently(s) && i+1 < len(e.Steps) && leftSilently(&e.Steps[i+1]) {
			i++
			plugin += ", " + e.Steps[i].Plugin
		}
		switch s.Verdict {
		case api.VerdictAnswers, api.VerdictResumes:
			verdict = in(green, s.Verdict)
		case api.VerdictWaits:
			verdict = in(red, s.Verdict)
		}
		cells := []cell{said(plugin), verdict}
		if s.Verdict != api.VerdictLeft {
			cells = append(cells, said(micros(s.Seconds)))
		}
		n := root.add(cells...)
		for _, text := range s.Notes {
			n.addf("%s", text)
		}
	}
	return root
}

func leftSilently(s *api.Step) bool { return s.Verdict == api.VerdictLeft && len(s.Notes) == 0 }

// micros shows microseconds below 1 ms.
func micros(s float64) string {
	if s < 1e-3 {
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + "us"
	}
	return seconds(s)
}
