// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
)

func guestsCommand(o *options) *cobra.Command {
	var switches *[]string
	cmd := &cobra.Command{
		Use:   "guests [PORT|SWITCH]",
		Short: "List guests with query counts, and interfaces not served",
		Long: `guests lists the guests that puntdns serves, with the query counts of the
switch. Below them it lists the interfaces that are not served, each with the
reason.

PORT is a logical port, an interface, an IP address or a MAC address. SWITCH is
the name or the UUID of a logical switch. Without an argument guests lists all.

QUERIES counts the packets that matched the guest's flows since the flows were
installed, over UDP and TCP. REFUSED is what limits have refused since the guest
was last a minute within them; QUERIES has packets over the rate, too. LAST
QUERY needs OpenFlow 1.5. A guest without a binding is "retained" for a while.`,
		Example: `  puntctl guests
  puntctl guests red-vm1
  puntctl guests --switch red -o wide
  puntctl guests -o json | jq -r '.unserved[].reason'`,
		Args:              needs(0),
		ValidArgsFunction: o.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			var all api.Guests
			if err := o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all); err != nil {
				return err
			}
			if len(args) > 0 && !selectGuests(&all, args[0]) {
				return noGuest(cmd, args[0])
			}
			if err := keepSwitches(&all, *switches); err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), &all, func(p *page) { p.guests(&all) })
		},
	}
	switches = addFilter(cmd, o, api.FilterSwitch, "guests of a logical switch, by its name or UUID")
	return cmd
}

func noGuest(cmd *cobra.Command, word string) error {
	return named(cmd, &exitError{status: exitUnwell, err: fmt.Errorf("%q: no guest or interface of this node has this name or address; `puntctl guests` lists all", word)})
}

// selectGuests keeps what word selects: by api.Guests.Find, or a switch. It reports whether any remain.
func selectGuests(all *api.Guests, word string) bool {
	type port struct{ bridge, port string }
	meant := map[port]bool{}
	for _, g := range all.Find(word) {
		meant[port{g.Bridge, g.Port}] = true
	}
	all.Guests = slices.DeleteFunc(all.Guests, func(g api.Guest) bool {
		return !meant[port{g.Bridge, g.Port}] && g.Switch != word && g.Network != word
	})
	all.Unserved = slices.DeleteFunc(all.Unserved, func(u api.Unserved) bool {
		return u.Port != word && u.Interface != word && (u.Expected || u.Switch != word && u.Network != word)
	})
	return len(all.Guests)+len(all.Unserved) > 0
}

// portsOf replaces words by the logical ports of their guests. Unknown words stay, and all words without a
// list of guests.
func (o *options) portsOf(cmd *cobra.Command, words []string) (ports []string) {
	var all api.Guests
	if o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all) != nil {
		return words
	}
	return portsAmong(&all, words)
}

func portsAmong(all *api.Guests, words []string) (ports []string) {
	for _, word := range words {
		found := all.Find(word)
		if found == nil {
			ports = append(ports, word)
		}
		for _, g := range found {
			ports = append(ports, g.Port)
		}
	}
	return ports
}

func (p *page) guests(all *api.Guests) {
	for _, text := range all.Errors {
		p.line(in(yellow, text))
	}
	if len(all.Guests) > 0 {
		rows := make([][]cell, 0, len(all.Guests))
		for i := range all.Guests {
			rows = append(rows, guestRow(&all.Guests[i]))
		}
		p.table([]column{
			{"BRIDGE", wide}, {"PORT", cut}, {"SWITCH", cut}, {"INTERFACE", wide}, {"IN_PORT", wide}, {"VLAN", wide}, {"MAC", wide},
			{"ADDRESSES", cut}, {"FLOWS", wide}, {"QUERIES", 0}, {"REFUSED", 0}, {"LAST QUERY", 0}, {"STATE", 0},
		}, rows)
	} else {
		p.linef("no guest is served")
	}
	if len(all.Unserved) == 0 {
		return
	}
	p.linef("")
	rows := make([][]cell, 0, len(all.Unserved))
	for _, u := range all.Unserved {
		reason := in(yellow, u.Reason)
		if u.Expected {
			reason = said(u.Reason)
		}
		rows = append(rows, []cell{said(u.Bridge), said(u.Interface), said(u.Port), reason})
	}
	p.table([]column{{"BRIDGE", wide}, {"NOT SERVED", cut}, {"PORT", cut}, {"REASON", wrap}}, rows)
}

func guestRow(g *api.Guest) []cell {
	number := func(n uint32) cell {
		if n == 0 {
			return said("")
		}
		return said(fmt.Sprint(n))
	}
	flows, queries, last := "", "", ""
	if h := g.FlowCounters; h != nil {
		flows, queries = fmt.Sprint(h.Flows), fmt.Sprint(h.Queries)
		if h.LastQuerySecondsAgo != nil {
			last = seconds(*h.LastQuerySecondsAgo) + " ago"
		}
	}
	state := in(green, "served")
	if g.Retained {
		state = in(yellow, "retained")
	}
	refused := uint64(0)
	for _, n := range g.Refused {
		refused += n
	}
	var codes []string
	for _, p := range g.Problems {
		if !remedy.IsNote(p.Code) {
			codes = append(codes, p.Code)
		}
	}
	if codes != nil {
		state = in(yellow, strings.Join(codes, " "))
	}
	return []cell{
		said(g.Bridge), said(g.Port), said(g.Switch), said(g.Interface), number(g.InPort), number(uint32(g.VLAN)), said(strings.Join(g.MACs, " ")),
		said(strings.Join(g.Addresses, " ")),
		said(flows), said(queries), number(uint32(min(refused, math.MaxUint32))), said(last), state,
	}
}
