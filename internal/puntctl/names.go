// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func namesCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "names [PORT|SWITCH|NAME]",
		Short: "Show which networks have which names, from which source",
		Long: `names shows which names the networks have.

  names         lists the networks
  names PORT    shows the names that a guest sees; PORT is a logical port, an
                interface, an IP address or a MAC address
  names SWITCH  shows the names of a logical switch, by its name or UUID
  names NAME    shows the networks that have a domain name

A word that is both a port and a switch means the port. A dot at its end makes
it a domain name.

SOURCE is the DNS row or the port that a value comes from. "domain by" says who
sets the domain of a port's name: the DHCP options (dhcp), the switch, or
ovnhosts in the Corefile. Other records come from external_ids of the row, such
as dns-mx. puntdns answers the values that have "yes" in WINS.

FORWARDED ZONE is a zone that puntdns asks the network's own DNS servers for.
Names that the network has itself are not forwarded.`,
		Example: `  puntctl names
  puntctl names red
  puntctl names red-vm1
  puntctl names db.cloud.internal`,
		Args:              needs(0),
		ValidArgsFunction: o.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			parameters := url.Values{}
			if len(args) > 0 {
				parameters.Set("of", args[0])
			}
			var all api.Names
			err := o.client(cmd).get(cmd.Context(), api.PathNames, parameters, &all)
			var refused *exitError
			if len(args) > 0 && errors.As(err, &refused) && refused.status == exitUnwell {
				// perhaps the interface or the address of one guest
				if ports := o.portsOf(cmd, args); len(ports) == 1 && ports[0] != args[0] {
					parameters.Set("of", ports[0])
					err = o.client(cmd).get(cmd.Context(), api.PathNames, parameters, &all)
				}
			}
			if err != nil {
				return named(cmd, err)
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
		p.table([]column{{"SWITCH", cut}, {"NETWORK", wide}, {"DOMAIN", cut}, {"NAMES", 0}, {"FORWARDED ZONES", 0}}, rows)
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
		p.table([]column{{"SWITCH", cut}, {"NETWORK", wide}, {"NAME", cut}, {"VALUE", cut}, {"WINS", 0}, {"SOURCE", wrap}}, rows)
	}
	if len(rows) > 0 && len(forwards) > 0 {
		p.linef("")
	}
	if len(forwards) > 0 {
		p.table([]column{{"SWITCH", cut}, {"NETWORK", wide}, {"FORWARDED ZONE", cut}, {"SERVERS", cut}, {"SOURCE", wrap}}, forwards)
	}
	if truncated != "" {
		p.line(in(yellow, "not all names are shown of switch "+truncated))
	}
}

func forwardRows(all *api.Names) (rows [][]cell) {
	for i := range all.Networks {
		n := &all.Networks[i]
		for _, f := range n.Forwards {
			rows = append(rows, []cell{said(n.Switch), said(n.Network), said(f.Zone), said(strings.Join(f.Servers, " ")), said("external_ids:dns-forward of " + f.NamedBy)})
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
	return []cell{said(n.Switch), said(n.Network), said(name.Name), said(value), wins, said(sourceOf(v))}
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
