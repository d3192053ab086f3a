// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/escape"
)

func guestsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "guests [PORT|SWITCH]",
		Short: "List the guests, and the interfaces that are not served",
		Long: `guests lists the guests that are served, with what the switch has counted of each, and the interfaces
of the bridges that are not served, with the reason. PORT is the name of a logical port and SWITCH
that of a logical switch, or its UUID; without them it lists all.

The packets are those that have matched the guest's flows since these were installed: QUERIES over UDP
and TCP, LAST QUERY as the switch knows it, which it tells by OpenFlow 1.5 only.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completePorts,
		RunE: func(cmd *cobra.Command, args []string) error {
			var all api.Guests
			if err := o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all); err != nil {
				return err
			}
			if len(args) > 0 && !selectGuests(&all, args[0]) {
				return &exitError{exitUnwell, fmt.Errorf("%q: no guest here has this port or switch, and no interface this port; expected one of those that `puntctl guests` lists", args[0])}
			}
			return o.write(cmd.OutOrStdout(), &all, func(p *page) { p.guests(&all) })
		},
	}
}

// selectGuests leaves what has the name of a port or switch. It reports whether there is any.
func selectGuests(all *api.Guests, word string) bool {
	all.Guests = slices.DeleteFunc(all.Guests, func(g api.Guest) bool { return g.Port != word && g.Switch != word && g.Network != word })
	all.Unserved = slices.DeleteFunc(all.Unserved, func(u api.Unserved) bool { return u.Port != word && u.Interface != word })
	return len(all.Guests)+len(all.Unserved) > 0
}

// completePorts completes the names of ports and switches, but those that a terminal may act on. Errors
// complete nothing.
func (o *options) completePorts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var all api.Guests
	if len(args) > 0 || o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, g := range all.Guests {
		words = append(words, g.Port, g.Switch)
	}
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), escape.NeedsEscape), cobra.ShellCompDirectiveNoFileComp
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
		p.table([]string{"PORT", "SWITCH", "IN_PORT", "VLAN", "ADDRESSES", "FLOWS", "QUERIES", "LAST QUERY", "STATE"}, rows)
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
	p.table([]string{"BRIDGE", "NOT SERVED", "PORT", "REASON"}, rows)
}

func guestRow(g *api.Guest) []cell {
	number := func(n uint32) cell {
		if n == 0 {
			return said("")
		}
		return said(fmt.Sprint(n))
	}
	flows, queries, last := "", "", ""
	if h := g.Hits; h != nil {
		flows, queries = fmt.Sprint(h.Flows), fmt.Sprint(h.Queries)
		if h.LastQuerySecondsAgo != nil {
			last = seconds(*h.LastQuerySecondsAgo) + " ago"
		}
	}
	state := in(green, "served")
	if g.Kept {
		state = in(yellow, "kept without a binding")
	}
	return []cell{
		said(g.Port), said(g.Switch), number(g.InPort), number(uint32(g.VLAN)), said(strings.Join(g.Addresses, " ")),
		said(flows), said(queries), said(last), state,
	}
}
