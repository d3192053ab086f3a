// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/shell"
)

// guests adds findings that need no further request. named is set if the operator has named a guest: then an
// interface that is not meant to be served is a problem too.
func (d *diagnosis) guests(s *api.Status, all *api.Guests, named bool) {
	for i := range all.Unserved {
		u := &all.Unserved[i]
		if u.Expected && !named || u.Code == api.CodeNoAddress {
			continue
		}
		f := finding{Level: levelProblem, About: "interface " + u.Interface, Text: fmt.Sprintf("port %q is not served: %s", u.Port, u.Reason)}
		if f = remedied(f, api.CodeUnserved, &remedy.Context{Interface: u.Interface, Port: u.Port}); u.Remedy != "" {
			f.Remedy, f.Commands = u.Remedy, nil
		}
		d.add(f)
	}
	d.addressless(all.Unserved)
	for _, text := range all.Errors {
		d.add(finding{Level: levelNote, About: "guests", Text: text, Remedy: "some checks of guests were left out, or some guests"})
	}
	unread := 0
	for i := range all.Guests {
		g := &all.Guests[i]
		for _, p := range g.Problems {
			level := levelProblem
			if remedy.IsNote(p.Code) {
				level = levelNote
			}
			p.About = "port " + p.About
			d.add(newFinding(level, &p))
		}
		if g.DHCP == nil {
			unread++
			continue
		}
		d.dhcp(g)
	}
	d.owned(all.Guests)
	if unread > 0 && !slices.ContainsFunc(s.Databases, func(db api.Database) bool { return db.Name == "OVN_Northbound" }) {
		d.add(finding{Level: levelNote, About: "DHCP", Text: "puntdns does not know what DHCP announces to guests, as ovnhosts does not read Northbound",
			Remedy: "their dns_server has to be a resolver address, and they need a route to it", Commands: []string{"ovn-nbctl list DHCP_Options"}})
	}
}

// dhcp checks whether DHCP gives a route to the announced resolver addresses, or to the first one.
func (d *diagnosis) dhcp(g *api.Guest) {
	resolvers := g.DHCPResolvers()
	if len(resolvers) == 0 {
		return // DHCP can't announce a resolver address
	}
	asked := slices.DeleteFunc(addressesIn(g.DHCP.DNSServer), func(a netip.Addr) bool { return !slices.Contains(resolvers, a) })
	if len(asked) == 0 {
		asked = resolvers[:1]
	}
	for _, a := range asked {
		if reason := noRoute(g.DHCP, a); reason != "" {
			f := finding{Level: levelProblem, About: "port " + g.Port, Text: fmt.Sprintf("it has no route to %s: %s", a, reason), Commands: setRoute(g.DHCP, a)}
			d.add(remedied(f, api.CodeNoRoute, &remedy.Context{}))
		}
	}
}

func setOptions(dhcp *api.DHCP) string {
	return "ovn-nbctl set DHCP_Options " + shell.Word(dhcp.Row) + " "
}

// words splits an OVN constant: one value, or several in braces.
func words(constant string) []string {
	return strings.FieldsFunc(constant, func(r rune) bool { return strings.ContainsRune("{}, \t\"", r) })
}

func addressesIn(constant string) (all []netip.Addr) {
	for _, word := range words(constant) {
		if a, err := netip.ParseAddr(word); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// noRoute returns "" if DHCP gives a route.
func noRoute(dhcp *api.DHCP, a netip.Addr) string {
	if subnet, err := netip.ParsePrefix(dhcp.CIDR); err == nil && subnet.Contains(a) {
		return ""
	}
	if routes := words(dhcp.Routes); len(routes) > 0 {
		for i := 0; i < len(routes); i += 2 {
			to, err := netip.ParsePrefix(routes[i])
			if single, bare := netip.ParseAddr(routes[i]); bare == nil {
				to, err = netip.PrefixFrom(single, single.BitLen()), nil
			}
			if err == nil && to.Contains(a) {
				return ""
			}
		}
		return "classless_static_route of its DHCP options has none, and with that router does not count"
	}
	if len(addressesIn(dhcp.Router)) > 0 {
		return ""
	}
	return "its DHCP options have neither router nor classless_static_route"
}

// setRoute returns the command for a route by the network's router, or on-link, where puntdns answers ARP. It
// returns nil if an existing route can't be parsed: a tenant may have written it.
func setRoute(dhcp *api.DHCP, a netip.Addr) []string {
	routes := words(dhcp.Routes)
	hop := "0.0.0.0"
	if router := addressesIn(dhcp.Router); len(router) > 0 {
		hop = router[0].String()
		if len(routes) == 0 {
			routes = []string{"0.0.0.0/0", hop}
		}
	}
	routes = append(routes, a.String()+"/32", hop)
	var pairs []string
	for i := 0; i < len(routes); i += 2 {
		if i+1 == len(routes) || !isDestination(routes[i]) || !isAddress(routes[i+1]) {
			return nil
		}
		pairs = append(pairs, routes[i]+","+routes[i+1])
	}
	return []string{setOptions(dhcp) + `options:classless_static_route='"{` + strings.Join(pairs, ", ") + `}"'`}
}

func isDestination(word string) bool {
	_, err := netip.ParsePrefix(word)
	return err == nil || isAddress(word)
}

// isAddress refuses zones, which may contain any character.
func isAddress(word string) bool {
	a, err := netip.ParseAddr(word)
	return err == nil && a.Zone() == ""
}

// maxAddressless limits the ports that addressless names.
const maxAddressless = 16

// addressless adds one finding for all guests that lack only a resolver address.
func (d *diagnosis) addressless(unserved []api.Unserved) {
	var of []string
	reason := ""
	for i := range unserved {
		if u := &unserved[i]; u.Code == api.CodeNoAddress {
			of, reason = append(of, fmt.Sprintf("%q", u.Port)), u.Reason
		}
	}
	if len(of) == 0 {
		return
	}
	text := fmt.Sprintf("ports that are not served: %d: %s", len(of), strings.Join(of[:min(maxAddressless, len(of))], ", "))
	if len(of) > maxAddressless {
		text += " and others"
	}
	f := finding{Level: levelProblem, About: "resolver address", Text: text + ": " + reason}
	d.add(remedied(f, api.CodeNoAddress, &remedy.Context{}))
}

// owned adds a note for each resolver address that a port of a network has too.
func (d *diagnosis) owned(guests []api.Guest) {
	seen := map[string]bool{}
	for i := range guests {
		g := &guests[i]
		for _, a := range g.Owned {
			key := g.Network + g.Switch + a
			if seen[key] || slices.Contains(g.Left, a) { // Left has its own code
				continue
			}
			seen[key] = true
			d.add(finding{
				Level: levelNote, About: "switch " + g.Switch, Text: "a port of it has " + a + ", such as the localport of a metadata agent: that alone answers ARP and neighbour solicitations for it",
				Remedy:   "queries to it are answered here all the same; guests with an on-link route need that port on this node, those with a route by a router do not",
				Commands: []string{"ovn-nbctl --columns=name,type,addresses find Logical_Switch_Port type=localport"},
			})
		}
	}
}
