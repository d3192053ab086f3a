// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Dump returns a snapshot as sorted lines, for tests. Equal rows give an equal Dump.
func Dump(s *Snapshot) string {
	d := dumper{s: s, domain: "fallback.test."}
	var keys []uint32
	for id, n := range s.networks.All() {
		d.network(id, n)
		d.names(n)
		d.ports(n.ports)
		keys = append(keys, n.ports.datapaths...)
	}
	for key, n := range s.byKey.All() {
		d.line("key %d %s %v", key, n.ID, s.Network(n.ID) == n && slices.Contains(keys, key))
	}
	for name, holders := range s.byName.All() {
		d.line("name %q %s %d", name, holders.first, holders.count)
	}
	for name, p := range s.ports.All() {
		d.line("index %s %s", name, p.Network)
	}
	for _, host := range showExternal(s) {
		d.line("external %s", host)
	}
	d.line("stage %v", s.stage)
	st := s.Stats
	d.line("stats %d %d %d %d", st.Networks, st.Ports, st.Rows, st.Names)
	slices.Sort(d.lines)
	return strings.Join(d.lines, "\n")
}

type dumper struct {
	s      *Snapshot
	domain string
	lines  []string
}

func (d *dumper) line(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *dumper) network(id origin.Network, n *Network) {
	d.line("network %s %q domain %q metadata %v meter %v", id, n.Name, n.Domain, n.ports.metadata, n.DNSMeter)
	if found, count := d.s.Resolve(SwitchRef{Name: n.Name}); d.s.Network(id) != n || count == 0 || (found == n) != (count == 1) {
		d.line("network %s is not to be found", id)
	}
	for z := range n.Forwards.All() {
		d.line("%s forward %d %s by %s: %v, key %s", id, z.Rank, z.Zone, z.NamedBy, z.Servers, z.Key)
	}
	for a := range n.ports.owners {
		d.line("%s owner %s %v %v", id, a, n.Owns(a), n.HasWorkload(a))
	}
	for a := range n.ports.machines {
		d.line("%s machine %s %v", id, a, d.s.HasMachine(n, a))
	}
	d.line("%s gateways %v", id, n.Gateways())
	for _, a := range n.Gateways() {
		if !n.Owns(a) {
			d.line("%s does not own its gateway %s", id, a)
		}
	}
	if joined := d.s.RouterScope(id).Union(); joined != nil {
		for other, names := range joined.All() {
			n := d.s.Network(other)
			d.line("%s joined %s %v", id, origin.Network(other), n != nil && names == &n.Directory)
		}
	}
}

func (d *dumper) names(n *Network) {
	known, structure := inspect(&n.Directory)
	d.line("%s directory %s", n.ID, structure)
	scope, addresses := d.s.SwitchScope(n.ID), map[netip.Addr]bool{}
	for _, name := range known {
		for _, name := range []string{name, name + d.domain} {
			a, ok := n.Lookup(name, d.domain)
			d.line("%s name %s %v %q", n.ID, name, ok, ShowAnswer(a))
			for _, a := range slices.Concat(a.V4, a.V6) {
				addresses[a] = true
			}
		}
		for above := name; above != ""; _, above, _ = strings.Cut(above, ".") {
			for _, name := range []string{above, "q." + above} {
				d.line("%s tree %s %q", n.ID, name, ShowLookup(scope, name, d.domain))
			}
		}
	}
	for addr := range addresses {
		name, _ := dns.ReverseAddr(addr.String())
		d.line("%s reverse %s %s", n.ID, addr, ShowLookup(scope, name, d.domain))
	}
}

func (d *dumper) ports(of *Ports) {
	for _, p := range of.all {
		d.line("port %+v %+v local %v localnets %v groups %q arriving %v ids %q %q", *p.LogicalPort, *p.PortContext, p.Local, p.Localnets(), p.Groups(), p.Arriving(), p.ExternalID("a"), p.ExternalID("b"))
		for _, e := range p.Egress() {
			d.line("port %s egress %v", p.Name, e.Entries())
		}
		if got := d.s.Guest(p.DatapathKey, p.Key); p.Key != 0 && got != p {
			d.line("port %s is not to be found by its keys: %v", p.Name, got)
		}
		if got := d.s.PortByName(p.Name); got != p {
			d.line("port %s is not to be found by its name: %v", p.Name, got)
		}
	}
	for _, p := range of.guests {
		d.line("guest %s", p.Name)
	}
}

func inspect(d *names.Directory) (known []string, structure string) {
	var out strings.Builder
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !strings.HasPrefix(v.Type().String(), "*names.index[") {
				walk(v.Elem())
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[netip.Addr]() {
				fmt.Fprint(&out, v, " ")
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Map:
			if v.Type().Key() == reflect.TypeFor[netip.Addr]() {
				return
			}
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range keys {
				known = append(known, k.String())
				fmt.Fprintf(&out, "%q: ", k)
				walk(v.MapIndex(k))
			}
		case reflect.Slice, reflect.Array:
			out.WriteString("[")
			for i := range v.Len() {
				walk(v.Index(i))
			}
			out.WriteString("]")
		default:
			fmt.Fprintf(&out, "%v ", v)
		}
	}
	walk(reflect.ValueOf(d))
	slices.Sort(known)
	return slices.Compact(known), out.String()
}

// ShowLookup returns an answer, "empty" for an empty non-terminal, or "none".
func ShowLookup(s Scope, name, domain string) string {
	if s.Own == nil {
		return "no scope"
	}
	a, ok := s.Lookup(name, domain)
	switch {
	case ok && a.OVNOwned:
		return "!" + ShowAnswer(a)
	case ok:
		return ShowAnswer(a)
	case s.Empty(name, domain):
		return "empty"
	}
	return "none"
}

func ShowAnswer(a names.Answer) string {
	var all []string
	for _, addr := range a.V4 {
		all = append(all, addr.String())
	}
	for _, addr := range a.V6 {
		all = append(all, addr.String())
	}
	all = append(all, a.PTR...)
	for _, rr := range a.RRs.Of(dns.TypeANY) {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		all = append(all, dns.TypeToString[rr.Header().Rrtype]+":"+strings.ReplaceAll(data, " ", "/"))
	}
	return strings.Join(all, " ")
}

func showExternal(s *Snapshot) []string {
	var all []string
	for p := range s.Guests() {
		if s.Guest(p.DatapathKey, p.Key) != nil && p.IsExternal() {
			all = append(all, p.Name+" is a guest by its own key")
		}
		for _, l := range p.Localnets() {
			for _, mac := range p.MACs {
				if q, by := s.External(p.DatapathKey, l.Key, mac); q == p && *by == l {
					all = append(all, fmt.Sprintf("%s by %s tag %d: %s", p.Name, l.Name, l.Tag, mac))
				}
			}
			if q, _ := s.External(p.DatapathKey, l.Key, origin.MAC{2, 0, 0, 0, 0, 0x99}); q != nil {
				all = append(all, q.Name+" has an address that it does not have")
			}
		}
	}
	slices.Sort(all)
	return all
}
