// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func namesCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "names [PORT|SWITCH|NAME]",
		Short: "Show which networks know which names, and where from",
		Long: `names shows what the networks know. With PORT, the name of a logical port, these are the names that
this guest sees; with SWITCH, the name or the UUID of a logical switch, those of its network; with
NAME, a domain name, the networks that know it. Without either it lists the networks. A word that is
both is taken for the port, then for the switch; a dot at its end makes it a NAME.

Each value has its source: the DNS row by its UUID, or the port, and where the domain of a port's name is
from: its DHCP options (dhcp), the switch, or ovnhosts in the Corefile. The value that wins is what is
answered. Records of other types are from external_ids of the row, such as dns-mx. Zones that the network
forwards to DNS servers of its own come below, with the row that names them; what the network knows by
itself is not forwarded. No guest sees this: it is for the operator only.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completePorts,
		RunE: func(cmd *cobra.Command, args []string) error {
			parameters := url.Values{}
			if len(args) > 0 {
				parameters.Set("of", args[0])
			}
			var all api.Names
			if err := o.client(cmd).get(cmd.Context(), api.PathNames, parameters, &all); err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), &all, func(p *page) { p.names(&all) })
		},
	}
}

func (p *page) names(all *api.Names) {
	if all.Kind == "" {
		rows := make([][]cell, 0, len(all.Networks))
		for i := range all.Networks {
			n := &all.Networks[i]
			rows = append(rows, []cell{said(n.Switch), said(n.Network), said(n.Domain), numberOf(n.Count), numberOf(n.ForwardedZones)})
		}
		p.table([]string{"SWITCH", "NETWORK", "DOMAIN", "NAMES", "FORWARDED ZONES"}, rows)
		return
	}
	var rows [][]cell
	truncated := ""
	for i := range all.Networks {
		n := &all.Networks[i]
		for j := range n.Names {
			for k := range n.Names[j].Values {
				rows = append(rows, nameRow(n, &n.Names[j], k))
			}
		}
		if n.Truncated {
			truncated = n.Switch
		}
	}
	forwards := forwardRows(all)
	if len(rows) > 0 || len(forwards) == 0 {
		p.table([]string{"SWITCH", "NAME", "VALUE", "SOURCE", "WINS"}, rows)
	}
	if len(rows) > 0 && len(forwards) > 0 {
		p.linef("")
	}
	if len(forwards) > 0 {
		p.table([]string{"SWITCH", "FORWARDED ZONE", "SERVERS", "SOURCE"}, forwards)
	}
	if truncated != "" {
		p.line(in(yellow, "not all names are shown of switch "+truncated))
	}
}

// forwardRows returns the zones that networks forward, a row each.
func forwardRows(all *api.Names) (rows [][]cell) {
	for i := range all.Networks {
		n := &all.Networks[i]
		for _, f := range n.Forwards {
			rows = append(rows, []cell{said(n.Switch), said(f.Zone), said(strings.Join(f.Servers, " ")), said("external_ids:dns-forward of " + f.NamedBy)})
		}
	}
	return rows
}

func nameRow(n *api.NetworkNames, name *api.Name, i int) []cell {
	v := &name.Values[i]
	value := strings.Join(slices.Concat(v.Addresses, v.Targets, v.Records), " ")
	if v.Unreadable {
		value = "unreadable"
	}
	wins := said("")
	if v.Wins {
		wins = in(green, "yes")
	}
	return []cell{said(n.Switch), said(name.Name), said(value), said(sourceOf(v)), wins}
}

func sourceOf(v *api.Value) string {
	source := v.Source
	switch {
	case v.Row != "":
		source = strings.TrimPrefix(v.Database, "OVN_") + " DNS row " + v.Row
		if len(v.Keys) > 0 {
			source += ", external_ids " + strings.Join(v.Keys, " ")
		}
	case v.Port != "":
		source = "port " + v.Port
	}
	if v.DomainFrom != "" {
		source += ", domain by " + v.DomainFrom
	}
	if v.Derived {
		source += ", by a wildcard or an address"
	}
	if v.OVNOwned {
		source += ", owned by OVN"
	}
	return source
}
