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
		Short: "Show the way of a query of one guest, and its answer",
		Long: `explain asks in the place of a guest, and shows the whole way of the query: the flows of the guest in the
switch, whether a query gets to the punt, by a trace in the switch; who the guest is to puntdns; the
views and the server block; what each plugin has decided, and how long it took; the answer as dig
prints it; and what the guest would get without puntdns. What keeps the guest from an answer comes first,
with what to do about it.

PORT is the name of a logical port or of a local interface, or an address or a MAC address that one
guest alone has. NAME is fully qualified, with or without the dot. TYPE is A unless it is given.

The query goes through the plugins that answer the guest. Nothing is sent to the guest or stored in
cache, and no log has it; upstreams are asked. The trace takes root and ovs-appctl, and changes nothing
in the switch.

Exit status:
  0  the guest gets records, or its query is resumed to the server that it has asked
  1  it does not, or something else is not well; or there is no such guest
  2  the command line is wrong
  3  the process could not be asked`,
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: o.completePorts,
		RunE: func(cmd *cobra.Command, args []string) error {
			parameters := url.Values{"port": {args[0]}, "name": {args[1]}, "server": {server}, "from": {from}, "tcp": {strconv.FormatBool(tcp)}}
			if len(args) > 2 {
				parameters.Set("type", args[2])
			}
			var e api.Explanation
			if err := o.client(cmd).get(cmd.Context(), api.PathExplain, parameters, &e); err != nil {
				return err
			}
			addFindings(&e, traceExplained(cmd.Context(), &e, ovsAppctl(vswitchd)), routeExplained(&e))
			show := func(p *page) { p.explanation(&e, drawing(cmd.OutOrStdout())) }
			if summary {
				show = func(p *page) { p.explainSummary(&e) }
			}
			if err := o.write(cmd.OutOrStdout(), &e, show); err != nil {
				return err
			}
			if !e.Well {
				return errUnwell
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&tcp, "tcp", false, "ask over TCP")
	flags.BoolVar(&summary, "summary", false, "show the answer and what is not well, and not the way")
	flags.StringVar(&server, "server", "", "the address, with or without a port, that the guest asks (default: its first resolver address that DHCP announces, else its first one)")
	flags.StringVar(&from, "from", "", "the address that the guest asks from (default: the first that OVN knows)")
	flags.StringVar(&vswitchd, "vswitchd", "ovs-vswitchd", "target of ovs-appctl(8)")
	return cmd
}

// addFindings adds the findings of puntctl to those of the process: first come before, last behind them.
// Well stays as the process says, unless a finding of puntctl clears it.
func addFindings(e *api.Explanation, first, last []api.Problem) {
	e.Well = e.Well && remedy.Well(first) && remedy.Well(last)
	e.Findings = append(slices.Insert(e.Findings, 0, first...), last...)
	remedy.FillExplanation(e)
}

// traceExplained traces the query through the switch, and returns a finding if the query does not get to
// the punt.
func traceExplained(ctx context.Context, e *api.Explanation, trace tracer) []api.Problem {
	q, ok := explainedQuery(e)
	if !ok {
		return nil
	}
	lines := q.lines()
	e.Trace = &api.Trace{Command: lines[0]}
	said, err := trace(ctx, e.Guest.Bridge, q.flow())
	if err != nil {
		e.Trace.Error = err.Error()
		return nil
	}
	t, w := e.Trace, readTrace(said, e.EntryTable)
	if w.isBalanced(&e.Guest, e.EntryTable) {
		t.Error = fmt.Sprintf("%s, in %s", balanced, w.before)
		return nil
	}
	t.Punted, t.Table, t.Flow = w.punted, strconv.Itoa(w.last.table), w.last.flow
	t.Dropped = w.dropped && !w.punted
	if t.Punted || e.Unasked != "" {
		return nil
	}
	return []api.Problem{notPunted(e, &q, &w)}
}

// routeExplained returns a finding if DHCP gives the guest no route to the server that it asks. The finding
// is a note, as nobody here knows whether the guest has its route by DHCP, by hand or by its image. In
// hijack mode there is none.
func routeExplained(e *api.Explanation) []api.Problem {
	g := &e.Guest
	server, err := netip.ParseAddrPort(e.Question.Server)
	if err != nil || !server.Addr().Is4() || e.Unasked != "" || g.DHCP == nil || len(resolversOf(g)) == 0 {
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

// explainedQuery returns the query to trace, and reports whether enough is known of it.
func explainedQuery(e *api.Explanation) (q query, ok bool) {
	server, err := netip.ParseAddrPort(e.Question.Server)
	client, clientErr := netip.ParseAddrPort(e.Question.Client)
	if err != nil || clientErr != nil || e.Guest.InPort == 0 {
		return q, false
	}
	return query{guest: &e.Guest, mac: e.Question.ClientMAC, from: client.Addr(), to: server.Addr(), port: server.Port(), tcp: e.Question.TCP}, true
}

// tree is how branches are drawn.
type tree struct{ branch, last, stem, gap string }

var (
	boxTree   = tree{"├─ ", "└─ ", "│  ", "   "}
	plainTree = tree{"|- ", "`- ", "|  ", "   "}
)

// drawing returns the tree for where it is written: box characters are for terminals of UTF-8.
func drawing(w io.Writer) *tree {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	if isTerminal(w) && (strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")) {
		return &boxTree
	}
	return &plainTree
}

// node is a line of a tree with those below it.
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

// nodes writes a tree.
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

// explainSummary writes what the guest gets, and what is not well, with what to do about it.
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

// outcomeOf says on one line what the guest gets.
func outcomeOf(e *api.Explanation) string {
	who := fmt.Sprintf("port %s asks %s for %s %s: ", e.Guest.Port, e.Question.Server, e.Question.Name, e.Question.Type)
	if e.Question.Server == "" {
		who = fmt.Sprintf("port %s asks for %s %s: ", e.Guest.Port, e.Question.Name, e.Question.Type)
	}
	answer := strings.Join(append([]string{e.Rcode}, recordsOf(e.Answer)...), " ")
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

// isKept reports whether something keeps the query from getting to the process.
func isKept(e *api.Explanation) bool {
	return slices.ContainsFunc(e.Findings, func(f api.Problem) bool {
		return f.Code == api.CodeNotPunted || f.Code == api.CodeNoFlows || f.Code == api.CodeLease
	})
}

// recordsOf returns the data of the records in the answer section of a message as dig prints it.
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

// explanation writes the whole way.
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
		n.addf("DHCP tells it dns_server %s, domain_name %s", cmp.Or(g.DHCP.DNSServer, "none"), cmp.Or(g.DHCP.DomainName, "none"))
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
	// Plugins stand one behind the other: a tree of them would only be deep.
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

// leftSilently reports whether a plugin is left out, and there is no more to say of it.
func leftSilently(s *api.Step) bool { return s.Verdict == api.VerdictLeft && len(s.Notes) == 0 }

// micros returns a duration below a second as it matters for plugins.
func micros(s float64) string {
	if s < 1e-3 {
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + "us"
	}
	return seconds(s)
}
