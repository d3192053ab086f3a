// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// Tables of OVN's ingress pipeline in the switch (ovn/controller/lflow.h). In each release the first two are
// for port security and disabled ports.
const (
	physicalTable     = 0
	firstIngressTable = 8
	lastSecurityTable = 9
)

// stopped is why the switch stops a query before the entry flows.
type stopped struct {
	text, remedy string
	commands     []string
}

// The remedy for an ACL. bypass is added if the ACL may have a network function.
const (
	allowDNS = "allow UDP and TCP to port 53 of the resolver address from the guest"
	bypass   = " by an ACL of a higher priority, which has no network_function_group"
)

// whyStopped takes the table of the entry flows, nil if unknown. OVN drops nothing in this table.
func (t *tracer) whyStopped(ctx context.Context, q *query, w *way, entry *uint8) (s stopped) {
	g, by := q.guest, w.stoppedBy()
	if g.PortKey != 0 {
		s.commands = logicalFlowCommands(g, by)
	}
	switch table := w.before.table; {
	case g.PortKey == 0 || entry != nil && table == int(*entry):
		s.text, s.remedy = "a flow of another program on the bridge drops it", "look for who has made that flow, by its cookie"
	case w.outport != 0:
		s.text, s.remedy = whySent(g, w.outport), allowDNS+bypass
	case table == physicalTable && slices.Contains(g.PortConfig, api.PortNoReceive):
		s.text, s.remedy = "the config of the guest's OpenFlow port is no-receive", "set the port to receive"
	case table == physicalTable && !strings.HasPrefix(w.before.flow, noMatch):
		s.text = "the switch drops it before OVN's pipeline"
		s.remedy = "look for who has made that flow, by its cookie"
		s.commands = []string{"ovs-ofctl dump-flows " + shell.Word(g.Bridge) + " table=0"}
	case table == physicalTable:
		s.text, s.remedy = "the bridge does not know the port of the guest", "ovn-controller makes that flow once it has bound the port: see its log; restart it if somebody has deleted the flows of the bridge"
	case table < firstIngressTable:
		s.text, s.remedy = "a flow before OVN's pipeline drops it", "look for who has made that flow, by its cookie"
	default:
		f, err := t.logicalFlow(ctx, g, w.before)
		of := f
		if err == nil && by != w.before { // all ACLs share w.before
			of, err = t.logicalFlow(ctx, g, by)
		}
		if err != nil {
			s.byPipeline(table, err)
			break
		}
		s.byStage(f, of.Hint, g)
	}
	s.commands = append(s.commands, q.lines()...)
	return s
}

// byPipeline is for an unknown logical flow.
func (s *stopped) byPipeline(table int, err error) {
	s.text = fmt.Sprintf("OVN stops it, and the logical flow is not known: %v", err)
	s.remedy = "look at the logical flow by the commands: its stage and its match say whether it is of an ACL or of a load balancer"
	if table <= lastSecurityTable {
		s.text, s.remedy = portSecurity, ownAddresses
	}
}

const (
	portSecurity = "port security drops it, or the port is disabled"
	ownAddresses = "the guest may only use the addresses in port_security of its logical port: add the one that it uses, or have it use one of these; and see that `enabled` is not false"
)

// byStage is for a known logical flow. hint is the Northbound row. The stage names are from OVN's
// northd/northd.h; later releases have several stages with one prefix.
func (s *stopped) byStage(f *api.LogicalFlow, hint string, g *api.Guest) {
	does := "drops"
	if strings.Contains(f.Actions, "reject {") || strings.Contains(f.Actions, "reg8[18] = 1") {
		does = "rejects"
	}
	of := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(f.Stage, p) {
				return true
			}
		}
		return false
	}
	switch {
	case of("ls_in_port_sec", "ls_in_check_port_sec", "ls_in_apply_port_sec"):
		s.text, s.remedy = portSecurity, ownAddresses
		s.commands = append(s.commands, "ovn-nbctl lsp-get-port-security "+shell.Word(g.Port))
	case of("ls_in_acl") && hint == "":
		s.text, s.remedy = fmt.Sprintf("no ACL allows it, so OVN %s it", does), allowDNS
	case of("ls_in_acl"):
		s.text, s.remedy = fmt.Sprintf("an ACL %s it", does), allowDNS
		s.row("ACL", hint)
	case of("ls_in_lb"):
		s.text = fmt.Sprintf("a load balancer %s it, since its VIP has no backend", does)
		s.remedy = "give the VIP of the resolver address backends, or take it from the load balancer: puntdns answers without one"
		s.row("Load_Balancer", hint)
	case of("ls_in_network_function"):
		s.text, s.remedy = "an ACL sends it through a network function that is not active", allowDNS+bypass
		s.row("ACL", hint)
	default:
		s.text, s.remedy = fmt.Sprintf("OVN %s it in stage %s", does, f.Stage), "look at the logical flow by the commands: its match says for what it is"
	}
}

// row names a Northbound row by the first digits of its UUID, which ovn-nbctl accepts.
func (s *stopped) row(table, hint string) {
	if hint != "" {
		s.text += fmt.Sprintf(" (row %s of Northbound's table %s)", hint, table)
		s.commands = append(s.commands, "ovn-nbctl list "+table+" "+hint)
	}
}

// noMatch is in a trace for a table without a matching flow.
const noMatch = "No match"

// whySent returns why OVN sends a packet to another port. The commands of stopped show its logical flow.
func whySent(g *api.Guest, outport uint32) string {
	for _, f := range g.FunctionPorts {
		if f.PortKey == outport {
			return fmt.Sprintf("an ACL sends it through a network function, by port %q", f.Port)
		}
	}
	return "OVN sends it to another port, as to that of a network function"
}

var (
	flowCookie   = regexp.MustCompile(`cookie (0x[0-9a-f]+)`)
	flowPriority = regexp.MustCompile(`priority (\d+)`)
)

func logicalFlowCommands(g *api.Guest, h hop) []string {
	if m := flowCookie.FindStringSubmatch(h.flow); m != nil {
		return []string{"ovn-sbctl lflow-list " + shell.Word(g.Network) + " " + m[1] + "    # the logical flow"}
	}
	return nil
}

func (c *client) logicalFlow(ctx context.Context, g *api.Guest, h hop) (*api.LogicalFlow, error) {
	cookie, priority := flowCookie.FindStringSubmatch(h.flow), flowPriority.FindStringSubmatch(h.flow)
	if cookie == nil || priority == nil {
		return nil, errors.New("the trace has no cookie or priority of the flow")
	}
	var f api.LogicalFlow
	err := c.get(ctx, api.PathLogicalFlow, url.Values{
		"bridge": {g.Bridge}, "network": {g.Network}, "table": {strconv.Itoa(h.table)}, "priority": {priority[1]}, "cookie": {cookie[1]},
	}, &f)
	return &f, err
}
