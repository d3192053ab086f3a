// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func egressListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list [PORT|SWITCH]",
		Short: "List the addresses that guests may send to, with their names",
		Long: `list shows which addresses answers have opened for guests with an egress policy.
It asks the switch. PORT is a logical port, an interface, an IP address or a MAC
address of a guest, SWITCH the name or the UUID of a logical switch. Without an
argument list shows all guests.

PACKETS counts since the address was opened, or since an answer has had its time
start again. CLOSES IN is the time until the address closes without a packet; it
needs OpenFlow 1.5. Networks that a policy allows by themselves are not shown.`,
		Example:           "  puntctl egress list\n  puntctl egress list sandbox-vm1",
		Args:              needs(0),
		ValidArgsFunction: o.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			var all api.Egress
			if err := o.client(cmd).get(cmd.Context(), api.PathEgress, nil, &all); err != nil {
				return err
			}
			if len(args) > 0 {
				var of api.Guests
				if err := o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &of); err != nil {
					return err
				}
				if !selectGuests(&of, args[0]) {
					return noGuest(cmd, args[0])
				}
				all.Openings = slices.DeleteFunc(all.Openings, func(o api.Opening) bool {
					return !slices.ContainsFunc(of.Guests, func(g api.Guest) bool { return g.Bridge == o.Bridge && g.Port == o.Port })
				})
			}
			return o.write(cmd.OutOrStdout(), &all, func(p *page) { p.openings(&all) })
		},
	}
}

func (p *page) openings(all *api.Egress) {
	for _, text := range all.Errors {
		p.line(in(yellow, text))
	}
	if len(all.Openings) == 0 {
		p.linef("no name has opened an address")
		return
	}
	rows := make([][]cell, 0, len(all.Openings))
	for i := range all.Openings {
		o := &all.Openings[i]
		last, left := "", ""
		if o.LastPacketSecondsAgo != nil {
			last = seconds(*o.LastPacketSecondsAgo) + " ago"
		}
		if o.ClosesInSeconds != nil {
			left = seconds(*o.ClosesInSeconds)
		}
		rows = append(rows, []cell{
			said(o.Bridge), said(o.Port), said(o.Switch), said(destination(o)), said(strings.Join(o.Names, " ")),
			said(fmt.Sprint(o.Packets)), said(last), said(left),
		})
	}
	p.table([]column{
		{"BRIDGE", wide}, {"PORT", cut}, {"SWITCH", wide}, {"OPEN", 0}, {"NAMES", cut}, {"PACKETS", 0}, {"LAST PACKET", 0}, {"CLOSES IN", 0},
	}, rows)
}

// destination returns an opening in the form of a policy's entry.
func destination(o *api.Opening) string {
	switch {
	case o.TransportPort == 0:
		return o.Address
	case strings.Contains(o.Address, ":"):
		return fmt.Sprintf("[%s]:%d/%s", o.Address, o.TransportPort, o.Protocol)
	}
	return fmt.Sprintf("%s:%d/%s", o.Address, o.TransportPort, o.Protocol)
}
